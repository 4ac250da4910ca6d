package record

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestFullDisk: a replica whose disk is full still says how it is to end and how it ended.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a small file system can only be mounted as root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m,nr_inodes=64"); err != nil {
		t.Skip("can't mount a small disk here:", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	Spare(dir)
	f, err := os.Create(filepath.Join(dir, "junk"))
	if err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	for i := 0; os.WriteFile(filepath.Join(dir, string(rune('0'+i))), nil, 0o600) == nil; i++ {
	}
	for i := range spares {
		want := Stop{Grace: time.Duration(i), At: time.Unix(int64(i), 0).UTC()}
		file := "stop." + string(rune('0'+i))
		if err := Write(dir, file, want); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
		var got Stop
		if ok, err := Read(dir, file, &got); !ok || err != nil || got != want {
			t.Fatalf("%v %v %+v", ok, err, got)
		}
	}
	if err := Write(dir, "more", Stop{}); err == nil {
		t.Error("there was room")
	}
}

// TestRan: how long ago a start was, by a clock that nobody sets.
func TestRan(t *testing.T) {
	boot, err := BootID()
	if err != nil {
		t.Fatal(err)
	}
	s := Start{Process: Process{BootID: boot}, At: time.Now().Add(24 * time.Hour), Up: Uptime() - 5*time.Second}
	if ran := s.Ran(); ran < 5*time.Second || ran > time.Minute {
		t.Error(ran)
	}
	if s.Process.BootID = "other"; s.Ran() != 0 {
		t.Error("over a boot")
	}
	if (&Start{}).Ran() != 0 {
		t.Error("of an old record")
	}
}
