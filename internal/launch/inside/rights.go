package inside

import (
	"fmt"
	"os"
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
// needs to change to the user's uid. scope is how far sockets and signals of the tree reach; 0: as far as its namespaces. missing
// names what this kernel can't do.
func dropRights(scope uint64) (missing []string, err error) {
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
	if scope != 0 && !scopeSockets(scope) {
		missing = append(missing, MissingSockets)
	}
	return missing, nil
}

// MissingSockets says that abstract unix sockets, which have neither owner nor place, are shared
// with everyone in the network namespace.
const MissingSockets = "abstract-sockets"

// scopeSockets lets the tree reach only abstract sockets of its own (Linux 6.12 and later).
func scopeSockets(scope uint64) bool {
	rules := struct{ fs, net, scoped uint64 }{scoped: scope}
	fd, _, e := syscall.RawSyscall(sysLandlockCreate, uintptr(unsafe.Pointer(&rules)), unsafe.Sizeof(rules), 0)
	if e != 0 {
		return false
	}
	defer syscall.Close(int(fd))
	_, _, e = syscall.RawSyscall(sysLandlockRestrict, fd, 0, 0)
	return e == 0
}

// takeOn makes this thread the user, for good. The kernel drops root's capabilities with it.
func takeOn(uid, gid int) error {
	for _, call := range [][4]uintptr{
		{syscall.SYS_SETGROUPS, 0, 0, 0},
		{syscall.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)},
		{syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)},
	} {
		if _, _, e := syscall.RawSyscall(call[0], call[1], call[2], call[3]); e != 0 {
			return e
		}
	}
	return nil
}

// preferForOOM: if memory runs out the work goes first, and its launcher stays to tell the tale.
func preferForOOM(pid int) {
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte("200"), 0)
}
