package inside

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

// Every wall has terminals of its own below /dev/pts: those of the machine are shared by all replicas, and the members of a project have one
// uid, so that whoever runs beside somebody could read what they type.

// The kernel's, the same on every architecture that we build for.
const (
	ioctlUnlock = 0x40045431 // TIOCSPTLCK
	ioctlPeer   = 0x5441     // TIOCGPTPEER
)

// maxSide bounds a terminal's size.
const maxSide = 4096

// Size is that of a terminal, in characters.
type Size struct{ Columns, Rows int }

// openTerminal makes a terminal among those of this mount namespace, for a user: our end, and the one that a shell gets. The second is opened
// without a path.
func openTerminal(uid int, size Size) (ours, theirs int, err error) {
	ours, err = syscall.Open("/dev/ptmx", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return -1, -1, err
	}
	theirs = -1
	var locked int32
	if err = ioctl(ours, ioctlUnlock, uintptr(unsafe.Pointer(&locked))); err == nil {
		peer, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(ours), ioctlPeer, syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC)
		if err = nonzero(e); err == nil {
			theirs = int(peer)
		}
	}
	if err == nil {
		err = resize(ours, size)
	}
	if err == nil && uid != 0 {
		err = syscall.Fchown(theirs, uid, -1) // it may be opened again by its name
	}
	if err != nil {
		_ = syscall.Close(ours)
		if theirs >= 0 {
			_ = syscall.Close(theirs)
		}
		return -1, -1, err
	}
	return ours, theirs, nil
}

func ioctl(fd int, what, arg uintptr) error {
	_, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), what, arg)
	return nonzero(e)
}

// resize takes what is not known, as where a program stands in the place of a person's screen, for the usual: one column would show nothing.
func resize(fd int, size Size) error {
	side := func(n, usual int) uint16 {
		if n < 1 {
			n = usual
		}
		return uint16(min(n, maxSide))
	}
	s := [4]uint16{side(size.Rows, 24), side(size.Columns, 80)}
	return ioctl(fd, syscall.TIOCSWINSZ, uintptr(unsafe.Pointer(&s)))
}

// Resize changes the size of a terminal.
func Resize(f *os.File, size Size) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) { err = resize(int(fd), size) })
	return errors.Join(err, cerr)
}
