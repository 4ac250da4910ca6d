package inside

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

const (
	prCapBoundDrop  = 24
	prSetNoNewPrivs = 38
	prCapAmbient    = 47
	ambientClearAll = 4
	keyctlJoin      = 1 // a new session keyring

	sysLandlockCreate   = 444 // the same on every architecture
	sysLandlockRestrict = 446
	scopeAbstract       = 1 << 0
	scopeSignal         = 1 << 1
)

// dropRights takes from this thread what a child could inherit. The thread itself keeps what it
// needs to change to the user's uid. missing names what this kernel can't do.
func dropRights() (missing []string, err error) {
	if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); e != 0 {
		return nil, fmt.Errorf("no new privileges: %w", e)
	}
	if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, prCapAmbient, ambientClearAll, 0, 0, 0, 0); e != 0 {
		return nil, fmt.Errorf("clear ambient capabilities: %w", e)
	}
	// Whoever inherits a session keyring possesses its keys. ENOSYS: there are none; EPERM: a filter
	// around us all keeps everyone from them.
	if _, _, e := syscall.RawSyscall(syscall.SYS_KEYCTL, keyctlJoin, 0, 0); e != 0 && e != syscall.ENOSYS && e != syscall.EPERM {
		return nil, fmt.Errorf("leave the session keyring: %w", e)
	}
	for c := range uintptr(64) {
		_, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, prCapBoundDrop, c, 0, 0, 0, 0)
		if e == syscall.EINVAL {
			break // beyond the last one that this kernel knows
		}
		if e != 0 {
			return nil, fmt.Errorf("drop capability %d: %w", c, e)
		}
	}
	if !scopeSockets() {
		missing = append(missing, MissingSockets)
	}
	return missing, nil
}

// MissingSockets says that abstract unix sockets, which have neither owner nor place, are shared
// with everyone in the network namespace.
const MissingSockets = "abstract-sockets"

// scopeSockets lets the tree reach only abstract sockets of its own (Linux 6.12 and later).
func scopeSockets() bool {
	rules := struct{ fs, net, scoped uint64 }{scoped: scopeAbstract | scopeSignal}
	fd, _, e := syscall.RawSyscall(sysLandlockCreate, uintptr(unsafe.Pointer(&rules)), unsafe.Sizeof(rules), 0)
	if e != 0 {
		return false
	}
	defer syscall.Close(int(fd))
	_, _, e = syscall.RawSyscall(sysLandlockRestrict, fd, 0, 0)
	return e == 0
}

// As runs f with the file rights of a uid and no groups, for paths that the user can change. f must
// not start goroutines that open files. When it fails f was not called.
func As(uid, gid int, f func()) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		done <- as(uid, gid, func() error { f(); return nil })
	}()
	return <-done
}

// as is As on this very thread, whose own rights come back, all but its groups. The kernel drops
// root's file capabilities while the file uid is not 0.
func as(uid, gid int, f func() error) error {
	if _, _, e := syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0); e != 0 {
		return e
	}
	syscall.RawSyscall(syscall.SYS_SETFSGID, uintptr(gid), 0, 0)
	syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(uid), 0, 0)
	defer func() {
		syscall.RawSyscall(syscall.SYS_SETFSUID, 0, 0, 0)
		syscall.RawSyscall(syscall.SYS_SETFSGID, 0, 0, 0)
	}()
	// These calls have no error; the one way to know is to ask.
	if now, _, _ := syscall.RawSyscall(syscall.SYS_SETFSUID, ^uintptr(0), 0, 0); int(now) != uid {
		return syscall.EPERM
	}
	return f()
}

// preferForOOM: if memory runs out the work goes first, and its launcher stays to tell the tale.
func preferForOOM(pid int) {
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte("200"), 0)
}
