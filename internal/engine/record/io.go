package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// MaxBytes bounds one record. A replica's spec is the largest; it is far below.
const MaxBytes = 4 << 20

// ErrTorn says that a record is there but can't be read as one: a damaged disk or a foreign hand,
// since Write never leaves half a record.
var ErrTorn = errors.New("record is garbled")

// ErrLocked says that another process holds the folder's lock.
var ErrLocked = errors.New("folder is locked by another launcher")

// serial tells temporary files of one process apart.
var serial atomic.Uint64

// Write makes the record file in dir hold v, whole or not at all: temporary file, fsync, rename,
// fsync of dir. When it returns nil the record survives a crash of the machine.
func Write(dir, file string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", file, err)
	}
	if len(data) >= MaxBytes {
		return fmt.Errorf("record %s of %d bytes is over the limit of %d", file, len(data), MaxBytes)
	}
	tmp := filepath.Join(dir, fmt.Sprintf(".%s.%d.%d", file, os.Getpid(), serial.Add(1)))
	err = writeSynced(tmp, append(data, '\n'))
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		_ = os.Remove(tmp)
		err = writeSpare(dir, tmp, append(data, '\n'), err)
	}
	if err != nil {
		_ = os.Remove(tmp)
		return fmt.Errorf("write %s: %w", file, err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, file)); err != nil {
		_ = os.Remove(tmp)
		return fmt.Errorf("write %s: %w", file, err)
	}
	return SyncDir(dir)
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// spares are files whose room is there already, for the records of a replica on a full disk: how it is to end, how it
// ended, and that all is done.
const (
	spares     = 4
	spareBytes = 16 << 10
)

func spareName(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf(".spare-%d", i)) }

// Spare puts room for a few records into dir, as far as there is any.
func Spare(dir string) {
	for i := range spares {
		f, err := os.OpenFile(spareName(dir, i), os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return
		}
		_ = unix.Fallocate(int(f.Fd()), 0, 0, spareBytes) // a file system that can't: then it is only a name
		_ = f.Close()
	}
}

// writeSpare makes path of a spare; full is what is said where there is none.
func writeSpare(dir, path string, data []byte, full error) error {
	for i := range spares {
		if os.Rename(spareName(dir, i), path) != nil {
			continue
		}
		f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return errors.Join(err, f.Truncate(int64(len(data))), f.Sync(), f.Close())
	}
	return full
}

// SyncDir makes the names in dir durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Read fills v from the record. Absent is false and no error; anything that is not exactly one
// JSON value with known fields, within MaxBytes, is ErrTorn.
func Read(dir, file string, v any) (ok bool, err error) {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", file, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return false, fmt.Errorf("read %s: %w", file, err)
	}
	if err := Decode(data, v); err != nil {
		return false, fmt.Errorf("read %s: %w", file, err)
	}
	return true, nil
}

// Decode is Read's judgement on bytes.
func Decode(data []byte, v any) error {
	if len(data) > MaxBytes {
		return fmt.Errorf("%w: over %d bytes", ErrTorn, MaxBytes)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	dec.UseNumber() // a hyper-parameter keeps the digits its user wrote
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", ErrTorn, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: bytes after the value", ErrTorn)
	}
	return nil
}

// Exists says whether the record is there, without reading it.
func Exists(dir, file string) bool {
	_, err := os.Lstat(filepath.Join(dir, file))
	return err == nil
}

// Lock takes the folder's lock, waiting for it. Closing the file, or the end of the process,
// lets it go; children do not inherit it (close on exec).
func Lock(dir string) (*os.File, error) { return lock(dir, unix.LOCK_EX) }

// TryLock is Lock that does not wait: ErrLocked when another process holds it.
func TryLock(dir string) (*os.File, error) { return lock(dir, unix.LOCK_EX|unix.LOCK_NB) }

func lock(dir string, how int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, FileLock), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := flock(f, how); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("take lock: %w", err)
	}
	return f, nil
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Locked says whether a launcher holds the lock now. It asks with a shared lock, so that two who
// ask at once don't mistake each other for a launcher; a launcher that tries at that very moment
// may see ErrLocked, therefore launchers try again for a little while.
func Locked(dir string) (bool, error) {
	f, err := os.OpenFile(filepath.Join(dir, FileLock), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open lock: %w", err)
	}
	defer f.Close()
	err = flock(f, unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask lock: %w", err)
	}
	return false, nil
}
