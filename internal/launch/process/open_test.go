package process

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestWrites: files that a process of the tree has open for writing, and no others.
func TestWrites(t *testing.T) {
	dir := t.TempDir()
	inode := map[string]uint64{}
	for _, name := range []string{"written", "read", "closed"} {
		at := filepath.Join(dir, name)
		if err := os.WriteFile(at, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(at)
		if err != nil {
			t.Fatal(err)
		}
		inode[name] = info.Sys().(*syscall.Stat_t).Ino
	}
	cmd := exec.Command("sh", "-c", `exec 3>>written 4<read; echo; read line`)
	cmd.Dir = dir
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() //nolint:errcheck // it is ended
	defer in.Close()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	tree := &Tree{Self: os.Getpid(), Mark: []byte("FERMI_REPLICA=none"), Log: slog.New(slog.DiscardHandler)}
	open, all := tree.Writes()
	if !all || !open[inode["written"]] || open[inode["read"]] || open[inode["closed"]] {
		t.Error(open, all, inode)
	}
}

func TestDescriptor(t *testing.T) {
	for text, want := range map[string]struct {
		inode      uint64
		writes, ok bool
	}{
		"pos:\t0\nflags:\t0100001\nmnt_id:\t29\nino:\t77\n": {77, true, true},
		"pos:\t0\nflags:\t02\nino:\t5\n":                    {5, true, true},
		"pos:\t0\nflags:\t0100000\nino:\t6\n":               {6, false, true},
		"pos:\t0\nflags:\t01\n":                             {0, true, false}, // an old kernel
		"flags:\tx\nino:\t6\n":                              {},
		"":                                                  {},
	} {
		if inode, writes, ok := descriptor([]byte(text)); inode != want.inode || ok != want.ok || ok && writes != want.writes {
			t.Errorf("%q: %d %v %v", text, inode, writes, ok)
		}
	}
}
