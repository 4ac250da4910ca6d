package spool

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/clock"
)

// TestFullDisk: on a real small file system lines are dropped, counted, and told of.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no small file system here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "log")
	s, err := Open(path, clock.Real, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer s.F.Close()
	filler := filepath.Join(dir, "filler")
	s.Write(0, 'O', []Text{{Bytes: []byte("before")}})
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	big := []byte(strings.Repeat("x", 10_000))
	for range 3 {
		s.Write(0, 'O', []Text{{Bytes: big}, {Bytes: big}})
	}
	if s.Lost() == 0 {
		t.Fatal("nothing was lost")
	}
	lost := s.Lost()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	s.Write(0, 'O', []Text{{Bytes: []byte("after")}})
	s.Close()
	lines := readSpool(t, path)
	if lines[0] != "before" || lines[len(lines)-1] != "after" || !strings.Contains(lines[len(lines)-2], fmt.Sprint(lost)) {
		t.Fatalf("%.80q", lines)
	}
}

var quiet = slog.New(slog.DiscardHandler)

func readSpool(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for raw := range strings.Lines(string(data)) {
		l, err := logbook.ParseLine([]byte(strings.TrimSuffix(raw, "\n")))
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		text := string(l.Text)
		if l.Partial {
			text += "…"
		}
		lines = append(lines, text)
	}
	return lines
}

func TestMasker(t *testing.T) {
	m := masker([]string{"hunter22", "hunter2222", "ab", "-----BEGIN\nMIIEvgIBADAN\n-----END"})
	for in, want := range map[string]string{
		"password hunter22!":       "password ***!",
		"hunter2222":               "***",
		"ab is too short to hide":  "ab is too short to hide",
		"MIIEvgIBADAN in one line": "*** in one line",
	} {
		if got := m.Replace(in); got != want {
			t.Errorf("%q became %q, not %q", in, got, want)
		}
	}
	if masker([]string{"", "abc"}) != nil {
		t.Error("nothing to hide is nil")
	}
}
