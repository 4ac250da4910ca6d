package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Ballast is room that the folder holds on to, so that there is some to let go of when others have filled the disk: what
// ends work must still be written down then. It is one file of bytes and some of no bytes, for file systems that run out
// of names before they run out of room. Beside it the store's own file has its next blocks already.
//
// A ballast is thrown away in parts and taken on again when there is plenty of room. Not safe for concurrent use.
type Ballast struct {
	dir   string // of the ballast
	data  string // the folder
	bytes int64  // its full size
}

const (
	ballastFolder = "ballast"
	ballastRoom   = "room"
	maxBallast    = 64 << 20
	ballastNames  = 64
	// plenty is how many times its size must be free before the ballast is taken on.
	plenty = 4
	// storeAhead is how much the store's file may grow on a full disk.
	storeAhead = 16 << 20
)

// Room is what a file system has.
type Room struct {
	Total, Free      int64 // bytes, for this user
	Names, FreeNames int64 // files that there may be, and more; 0, 0: the file system knows no limit
}

// RoomOf asks the file system below a path.
func RoomOf(path string) (Room, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Room{}, fmt.Errorf("free space of %s: %w", path, err)
	}
	return Room{int64(st.Blocks) * st.Bsize, int64(st.Bavail) * st.Bsize, int64(st.Files), int64(st.Ffree)}, nil
}

// Ballast is that of the folder; it holds nothing yet.
func (d *DataDir) Ballast() *Ballast { return BallastOf(d.path) }

// BallastOf is that of any folder that is one process's own.
func BallastOf(data string) *Ballast {
	b := &Ballast{dir: filepath.Join(data, ballastFolder), data: data, bytes: maxBallast}
	if room, err := RoomOf(data); err == nil {
		b.bytes = min(maxBallast, room.Total/16)
	}
	return b
}

// Hold takes the ballast on where it is not there and there is plenty of room, and keeps the store's next blocks.
func (b *Ballast) Hold() error {
	if err := b.ahead(); err != nil {
		return err
	}
	room, err := RoomOf(b.data)
	if err != nil {
		return err
	}
	if b.held() < b.bytes && room.Free > plenty*b.bytes {
		if err := b.take(); err != nil {
			return err
		}
	}
	if room.Names == 0 || room.FreeNames < plenty*ballastNames {
		return nil
	}
	for i := range ballastNames {
		f, err := os.OpenFile(b.name(i), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (b *Ballast) name(i int) string { return filepath.Join(b.dir, fmt.Sprintf("name-%02d", i)) }

func (b *Ballast) take() error {
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(b.dir, ballastRoom), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, b.bytes)
	return errors.Join(err, f.Close())
}

// held is how many bytes can be let go.
func (b *Ballast) held() int64 {
	info, err := os.Stat(filepath.Join(b.dir, ballastRoom))
	if err != nil {
		return 0
	}
	return info.Size()
}

// ahead gives the store's file its next blocks: nobody else can take them.
func (b *Ballast) ahead() error {
	f, err := os.OpenFile(filepath.Join(b.data, etcdFolder, "member", "snap", "db"), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Blocks*512 >= st.Size+storeAhead/2 {
		return nil
	}
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, st.Size+storeAhead); err != nil && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSPC) {
		return err
	}
	return nil
}

// Release lets go of n bytes, or of those that there are, and says how many that were. A quarter stays for the next start.
func (b *Ballast) Release(n int64) int64 { return b.release(n, b.bytes/4) }

func (b *Ballast) release(n, keep int64) int64 {
	had := b.held()
	if had > keep && n > 0 {
		if err := os.Truncate(filepath.Join(b.dir, ballastRoom), max(keep, had-n)); err != nil {
			_ = os.Remove(filepath.Join(b.dir, ballastRoom)) // needs no room, where a shorter file may
		}
	}
	return had - b.held()
}

// ReleaseNames lets go of n names.
func (b *Ballast) ReleaseNames(n int) (released int) {
	for i := ballastNames - 1; i >= 0 && released < n; i-- {
		if os.Remove(b.name(i)) == nil {
			released++
		}
	}
	return released
}
