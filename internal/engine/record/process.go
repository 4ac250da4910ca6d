package record

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// bootID is the kernel's; it changes with every boot and never within one.
var bootID = sync.OnceValues(func() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
})

// BootID is this boot of this machine.
func BootID() (string, error) { return bootID() }

// Self describes this process.
func Self() Process {
	p, err := Describe(os.Getpid())
	if err != nil {
		// /proc is there for our own pid or nowhere; without it a pid is all we have.
		return Process{PID: os.Getpid()}
	}
	return p
}

// Describe tells the process that has this pid now from any other. os.ErrNotExist: none has.
func Describe(pid int) (Process, error) {
	stat, err := ReadStat(pid)
	if err != nil {
		return Process{}, err
	}
	boot, err := bootID()
	if err != nil {
		return Process{}, fmt.Errorf("read boot id: %w", err)
	}
	return Process{PID: pid, StartTicks: stat.StartTicks, BootID: boot}, nil
}

// Alive says whether exactly this process still runs. A zombie does not run.
func (p Process) Alive() bool {
	if p.PID <= 0 {
		return false
	}
	boot, err := bootID()
	if err != nil || boot != p.BootID {
		return false
	}
	stat, err := ReadStat(p.PID)
	return err == nil && stat.StartTicks == p.StartTicks && stat.State != 'Z' && stat.State != 'X'
}

// Signal sends sig to exactly this process: the pidfd is taken first, then the identity checked,
// so that a reused pid is never hit. os.ErrProcessDone when it has ended.
func (p Process) Signal(sig unix.Signal) error {
	if p.PID <= 0 {
		return os.ErrProcessDone
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	if err != nil {
		return fmt.Errorf("pidfd of %d: %w", p.PID, err)
	}
	defer unix.Close(fd)
	if !p.Alive() {
		return os.ErrProcessDone
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil {
		if errors.Is(err, unix.ESRCH) {
			return os.ErrProcessDone
		}
		return fmt.Errorf("signal %d: %w", p.PID, err)
	}
	return nil
}

// Stat is what we read of /proc/PID/stat.
type Stat struct {
	State      byte // 'R', 'S', 'Z' …
	PPID       int
	UserTicks  uint64
	KernTicks  uint64
	StartTicks uint64
	RSSPages   int64
}

// ReadStat reads /proc/PID/stat. os.ErrNotExist: no such process.
func ReadStat(pid int) (Stat, error) {
	var buf [1024]byte // it has 52 numbers and a name of 64 bytes at most
	n, err := readWhole("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	if errors.Is(err, unix.ESRCH) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return Stat{}, fmt.Errorf("stat of process %d: %w", pid, err)
	}
	return parseStat(buf[:n])
}

// readWhole reads one of the kernel's short texts with three system calls; an os.File costs ten, and launchers look at all
// processes of a machine.
func readWhole(path string, buf []byte) (n int, err error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return retry(func() (int, error) { return unix.Read(fd, buf) })
}

func retry(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); err != unix.EINTR {
			return n, err
		}
	}
}

// parseStat starts after the last ')': the command's name may hold anything, also ')' and blanks.
func parseStat(data []byte) (Stat, error) {
	i := bytes.LastIndexByte(data, ')')
	if i < 0 {
		return Stat{}, errors.New("process stat has no name")
	}
	f := bytes.Fields(data[i+1:])
	if len(f) < 22 || len(f[0]) != 1 {
		return Stat{}, errors.New("process stat is too short")
	}
	s := Stat{State: f[0][0]}
	var errs [5]error
	s.PPID, errs[0] = strconv.Atoi(string(f[1]))
	s.UserTicks, errs[1] = strconv.ParseUint(string(f[11]), 10, 64)
	s.KernTicks, errs[2] = strconv.ParseUint(string(f[12]), 10, 64)
	s.StartTicks, errs[3] = strconv.ParseUint(string(f[19]), 10, 64)
	s.RSSPages, errs[4] = strconv.ParseInt(string(f[21]), 10, 64)
	return s, errors.Join(errs[:]...)
}
