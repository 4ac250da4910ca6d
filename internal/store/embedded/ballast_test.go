package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// smallDisk is a file system of its own.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a small file system can only be mounted as root")
	}
	mount, err := os.MkdirTemp("/tmp", "f")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, options); err != nil {
		os.Remove(mount)
		t.Skip("can't mount a small disk here:", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(mount, syscall.MNT_DETACH); os.Remove(mount) })
	return mount
}

// TestBallast: it is held while there is room, gives room and names on a full disk, and a folder on such a disk opens.
func TestBallast(t *testing.T) {
	mount := smallDisk(t, "size=64m,nr_inodes=4096")
	dir := filepath.Join(mount, "data")
	d, err := OpenDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	b := d.Ballast()
	if err := b.Hold(); err != nil {
		t.Fatal(err)
	}
	if b.held() != 4<<20 {
		t.Fatalf("%d bytes of ballast", b.held())
	}
	d.Close()
	junk := filepath.Join(mount, "junk")
	fillUp(t, junk)
	if room, _ := RoomOf(dir); room.Free != 0 {
		t.Fatalf("%+v", room)
	}
	if d, err = OpenDataDir(dir); err != nil {
		t.Fatal("a folder with ballast on a full disk:", err)
	}
	defer d.Close()
	if room, _ := RoomOf(dir); room.Free == 0 || b.held() == 4<<20 {
		t.Errorf("nothing was thrown away: %+v, %d held", room, b.held())
	}
	if err := os.Remove(junk); err != nil {
		t.Fatal(err)
	}
	if err := b.Hold(); err != nil || b.held() != 4<<20 {
		t.Errorf("it is not taken on again: %d, %v", b.held(), err)
	}
	names := filepath.Join(mount, "names")
	if err := os.Mkdir(names, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		if err := os.WriteFile(filepath.Join(names, fmt.Sprint(i)), nil, 0o600); err != nil {
			break
		}
	}
	if free, err := d.Free(); err != nil || free != 0 {
		t.Errorf("%d bytes for a store that can make no file: %v", free, err)
	}
	if n := b.ReleaseNames(8); n != 8 {
		t.Errorf("%d names", n)
	}
	if err := os.WriteFile(filepath.Join(dir, "one"), nil, 0o600); err != nil {
		t.Error(err)
	}
}

func fillUp(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<20); ; {
		if n, err := f.Write(block); err != nil && n == 0 {
			if len(block) == 4096 {
				return
			}
			block = block[:4096]
		}
	}
}
