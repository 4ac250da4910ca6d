package depot

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Pods of a project share a depot on their node. Who brings the launcher into a pod lays versions out there, by his own rights; the pod sees of them those that it
// names, read-only, each with its lock, and holds them that way while it runs.

// LockExt is behind the name of a version's lock where that is seen beside it.
const LockExt = ".lock"

// Keep has a version be in a depot that the caller alone writes in; fetch writes its list (count 0), or a run of its chunks.
func (d *Depot) Keep(ctx context.Context, v Version, fetch func(ctx context.Context, first, count int, w io.Writer) error, progress func(done, total int64)) error {
	held, err := d.Hold(ctx, v, func(ctx context.Context, place string) error { return layHere(ctx, place, v, fetch, progress) })
	if err != nil {
		return err
	}
	return errors.Join(os.Chmod(held.lock.Name(), 0o644), held.Close()) // who sees it may be anybody
}

// layHere is Lay in this process.
func layHere(ctx context.Context, place string, v Version, fetch func(ctx context.Context, first, count int, w io.Writer) error, progress func(done, total int64)) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	ours, theirs := net.Pipe()
	defer context.AfterFunc(ctx, func() { _ = errors.Join(ours.Close(), theirs.Close()) })()
	var brought error
	var wg sync.WaitGroup
	wg.Go(func() {
		brought = Relay(ctx, ours, fetch)
		_ = ours.Close()
	})
	err := Lay(ctx, place, v, theirs, progress)
	_ = theirs.Close()
	wg.Wait()
	if err != nil && brought != nil { // why it could not go on
		return brought
	}
	return err
}

// PlaceOf is where Keep puts a version within the depot's folder, and LockOf its lock.
func PlaceOf(v Version) string { return filepath.Join(strconv.Itoa(v.UID), v.Digest) }
func LockOf(v Version) string  { return filepath.Join(dirLocks, v.key()) }

// See holds a version that lies at dir/DIGEST, with its lock beside it. fs.ErrNotExist: it is not there as a whole, or is about to go.
func See(dir, digest string) (*Held, error) {
	at := filepath.Join(dir, digest)
	lock, err := os.Open(at + LockExt)
	if err != nil {
		return nil, err
	}
	if unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil || !isWhole(at) {
		return nil, errors.Join(fs.ErrNotExist, lock.Close())
	}
	return &Held{Root: filepath.Join(at, dirRoot), lock: lock}, nil
}

// isWhole says that a folder is a version: an empty one may be made by who only meant to show it.
func isWhole(dir string) bool {
	info, err := os.Lstat(filepath.Join(dir, fileList))
	return err == nil && info.Mode().IsRegular()
}
