package hostengine

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// fileUIDs holds the highest uid that was ever given to a project on this machine.
const fileUIDs = "uids.json"

type burnt struct {
	Last int `json:"last"`
}

// UIDs gives the projects' uids where a range of them was set.
type UIDs struct {
	Dir string // Config.Dir
}

// Burn returns the first number from least on that it never returned before. When it returns,
// that is durable, for every server on this directory.
func (u UIDs) Burn(least int) (uid int, err error) {
	refused := func(err error) error {
		return fault.New(fault.Unavailable, "UIDNotWritten", fault.T(
			"The project's uid could not be written down.", "无法记录项目的 uid。")).Because(err)
	}
	lock, err := os.OpenFile(filepath.Join(u.Dir, fileUIDs+".lock"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return 0, refused(err)
	}
	defer lock.Close()
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return 0, refused(err)
	}
	var b burnt
	if _, err := record.Read(u.Dir, fileUIDs, &b); err != nil {
		return 0, refused(err) // garbled: better none than one that is somebody's
	}
	b.Last = max(b.Last+1, least)
	if err := record.Write(u.Dir, fileUIDs, b); err != nil {
		return 0, refused(err)
	}
	return b.Last, nil
}
