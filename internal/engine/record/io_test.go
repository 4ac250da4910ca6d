package record

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine"
)

func TestWriteRead(t *testing.T) {
	dir := t.TempDir()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	want := Go{Epoch: 1 << 60, Attempt: 3, At: at}
	var got Go
	if ok, err := Read(dir, FileGo, &got); ok || err != nil {
		t.Fatalf("absent: %v, %v", ok, err)
	}
	for range 2 { // again replaces
		if err := Write(dir, FileGo, want); err != nil {
			t.Fatal(err)
		}
		if ok, err := Read(dir, FileGo, &got); !ok || err != nil {
			t.Fatalf("read: %v, %v", ok, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	}
	if !Exists(dir, FileGo) || Exists(dir, FileDone) {
		t.Fatal("Exists is wrong")
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 {
		t.Fatalf("leftovers: %v, %v", names, err)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, data := range map[string]string{
		"empty": "", "torn": `{"epoch":1`, "unknown": `{"epoch":1,"x":2}`, "twice": `{} {}`, "garbage": "\x00\x00",
		"type": `{"epoch":"1"}`, "huge": `{"at":"` + string(bytes.Repeat([]byte("a"), MaxBytes)) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, FileGo), []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
			var g Go
			if ok, err := Read(dir, FileGo, &g); ok || !errors.Is(err, ErrTorn) {
				t.Fatalf("got %v, %v", ok, err)
			}
		})
	}
	dir := t.TempDir()
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, FileGo)); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir, FileGo, &Go{}); err == nil {
		t.Fatal("a link was followed")
	}
	if err := Write(dir, FileExit, engine.Exit{Message: string(bytes.Repeat([]byte("a"), MaxBytes))}); err == nil {
		t.Fatal("wrote more than can be read")
	}
}

func TestNumbersKeepTheirDigits(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileReplica), []byte(`{"resources":{},"stopGrace":"1s","hyperParameters":{"seed":9007199254740993}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var r engine.Replica
	if ok, err := Read(dir, FileReplica, &r); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := Write(dir, FileReplica, r); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, FileReplica))
	if err != nil || !bytes.Contains(data, []byte("9007199254740993")) {
		t.Fatalf("%s %v", data, err)
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	if held, err := Locked(dir); held || err != nil {
		t.Fatal(held, err)
	}
	f, err := TryLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if held, err := Locked(dir); !held || err != nil {
		t.Fatal(held, err)
	}
	if _, err := TryLock(dir); !errors.Is(err, ErrLocked) {
		t.Fatal(err)
	}
	f.Close()
	if held, err := Locked(dir); held || err != nil {
		t.Fatal(held, err)
	}
	g, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	g.Close()
}

func TestProcess(t *testing.T) {
	if !Self().Alive() {
		t.Fatal("we are dead")
	}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := Describe(cmd.Process.Pid)
	if err != nil || !p.Alive() {
		t.Fatal(p, err)
	}
	other := p
	other.StartTicks++
	boot := p
	boot.BootID = "another"
	for _, x := range []Process{other, boot, {}} {
		if x.Alive() {
			t.Fatalf("%+v is alive", x)
		}
		if err := x.Signal(unix.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
			t.Fatalf("signalled %+v: %v", x, err)
		}
	}
	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for p.Alive() { // a zombie is not alive, although nobody has waited for it
		if time.Now().After(deadline) {
			t.Fatal("still alive")
		}
		time.Sleep(time.Millisecond)
	}
	_ = cmd.Wait()
	if _, err := Describe(cmd.Process.Pid); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

func TestParseStat(t *testing.T) {
	line := "7 (a) b (c)) S 5 1 1 0 -1 4 1 2 3 4 11 12 13 14 20 0 1 0 777 100 25 18446744073709551615 1"
	got, err := parseStat([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Stat{State: 'S', PPID: 5, UserTicks: 11, KernTicks: 12, StartTicks: 777, RSSPages: 25}, got); d != "" {
		t.Fatal(d)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (a) b (c)) S 5 1 1 0 -1 4 1 2 3 4 11 12 13 14 20 0 1 0 777 100 25 1 1"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, data []byte) { _, _ = parseStat(data) })
}

// FuzzDecode: whatever was accepted is written and read back as the same.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"code":1,"reason":"Stopped","at":"2026-01-02T03:04:05Z","cpuTime":1,"peakBytes":2}`))
	f.Add([]byte(`{"code":1`))
	f.Add([]byte(`{"code":1}{}`))
	f.Add([]byte("\xff\xfe"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		var a, b engine.Exit
		if Decode(data, &a) != nil {
			return
		}
		if y := a.At.Year(); y < 0 || y > 9999 {
			return
		}
		if err := Write(dir, FileExit, a); err != nil {
			t.Fatal(err)
		}
		if ok, err := Read(dir, FileExit, &b); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if !a.At.Equal(b.At) {
			t.Fatal(a.At, b.At)
		}
		a.At, b.At = time.Time{}, time.Time{}
		if d := cmp.Diff(a, b); d != "" {
			t.Fatal(d)
		}
	})
}
