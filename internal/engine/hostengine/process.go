package hostengine

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// process is a launcher that we watch: a child of ours, or one that an earlier server started.
// The pidfd is in Go's poller, so that a thousand of them cost no thread.
type process struct {
	pid   int
	child bool // ours to reap
	file  *os.File
	ended chan struct{} // closed when it has ended, or at close
	done  chan struct{} // closed when the watching goroutine has ended
}

// errEnded says that there is nobody to watch.
var errEnded = errors.New("process has ended")

// watchRecorded watches the process of a record. errEnded when that very process is no more.
func watchRecorded(p record.Process) (*process, error) {
	if p.PID <= 0 || !p.Alive() {
		reapRecorded(p)
		return nil, errEnded
	}
	fd, err := unix.PidfdOpen(p.PID, unix.PIDFD_NONBLOCK)
	if err == unix.ESRCH {
		return nil, errEnded
	}
	if err != nil {
		return nil, err
	}
	// The pid may have passed to another between the two calls: what we hold must be who we meant.
	if !p.Alive() {
		_ = unix.Close(fd)
		reapRecorded(p)
		return nil, errEnded
	}
	return watch(p.PID, fd, false)
}

// watchChild watches a child that was not reaped yet; its pid is therefore its own. fd is its pidfd
// or -1.
func watchChild(pid, fd int) (*process, error) {
	if fd < 0 {
		var err error
		if fd, err = unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK); err != nil {
			return nil, err
		}
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return watch(pid, fd, true)
}

func watch(pid, fd int, child bool) (*process, error) {
	p := &process{pid: pid, child: child, file: os.NewFile(uintptr(fd), "pidfd"), ended: make(chan struct{}), done: make(chan struct{})}
	conn, err := p.file.SyscallConn()
	if err != nil {
		_ = p.file.Close()
		return nil, err
	}
	go func() {
		defer close(p.done)
		defer close(p.ended)
		_ = conn.Read(func(fd uintptr) bool { return readable(int(fd)) })
	}()
	return p, nil
}

// readable says that the process of a pidfd has ended.
func readable(fd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

// over says that it has ended.
func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// signal reaches this process or nobody.
func (p *process) signal(sig syscall.Signal) {
	if conn, err := p.file.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
	}
}

// close lets go, and reaps it if it is our child. A child that lives on is left to the goroutine
// that watches it anyway: the one thing that outlives Run, for a server that no longer leads must
// still take its zombies away.
func (p *process) close() {
	if p.child && !p.over() {
		go p.finish()
		return
	}
	_ = p.file.SetReadDeadline(time.Unix(1, 0)) // wakes the watcher
	p.finish()
}

func (p *process) finish() {
	<-p.done
	if conn, err := p.file.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { reap(int(fd)) })
	}
	_ = p.file.Close()
}

// reaping is held while a zombie is taken away. The kernel throws out what /proc has of it and spins until others have let go of that; on
// all processors at once, with a server's priority, those would hardly ever run.
var reaping sync.Mutex

// reap takes a zombie away if it is our child; otherwise it is somebody else's to take.
func reap(pidfd int) {
	reaping.Lock()
	defer reaping.Unlock()
	_ = unix.Waitid(unix.P_PIDFD, pidfd, nil, unix.WEXITED|unix.WNOHANG, nil)
}

// reapRecorded takes away a child of ours that ended while nobody watched it.
func reapRecorded(p record.Process) {
	mine := func() bool {
		stat, err := record.ReadStat(p.PID)
		return err == nil && stat.State == 'Z' && stat.PPID == os.Getpid() && stat.StartTicks == p.StartTicks
	}
	if p.PID <= 0 || !mine() {
		return
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if mine() {
		// Not WNOHANG: its other threads may need a moment more, and then nobody would come back.
		_ = unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED, nil)
	}
}
