package rootfs

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	keepUnused = 7 * 24 * time.Hour // an image that nobody used
	keepBlobs  = 24 * time.Hour     // a layer whose image was never finished
)

// collect removes what was not used for long. What fails is tried with the next image.
func collect(dir string, now time.Time) {
	for _, name := range older(filepath.Join(dir, dirBlobs), now.Add(-keepBlobs)) {
		_ = os.Remove(filepath.Join(dir, dirBlobs, name))
	}
	for _, name := range older(filepath.Join(dir, dirRoots), now.Add(-keepUnused)) {
		remove(dir, strings.TrimPrefix(strings.TrimPrefix(name, ".new-"), ".old-"), name)
	}
}

// remove takes one root away unless its image is in use.
func remove(dir, key, name string) {
	lock, err := os.OpenFile(filepath.Join(dir, dirLocks, key), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return
	}
	defer lock.Close()
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	old := filepath.Join(dir, dirRoots, ".old-"+key) // at once: half of one must never be found in its place
	if name != filepath.Base(old) && os.Rename(filepath.Join(dir, dirRoots, name), old) != nil {
		return
	}
	_ = os.RemoveAll(old)
}

// older are the entries of a folder that were last changed before a time.
func older(dir string, than time.Time) (names []string) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range list {
		if info, err := e.Info(); err == nil && info.ModTime().Before(than) {
			names = append(names, e.Name())
		}
	}
	return names
}
