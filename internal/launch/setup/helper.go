package setup

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/deed"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
)

// helpers are the steward's processes, which belong to no generation: one, and those that hung and that the kernel does not let die.
type helpers struct {
	mu    sync.Mutex
	list  []record.Process
	ready *inside.Ready // processes that will build walls
}

func (h *helpers) all() []record.Process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.list
}

func (h *helpers) add(p record.Process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	alive := make([]record.Process, 0, len(h.list)+1)
	for _, old := range h.list {
		if st, err := record.ReadStat(old.PID); err == nil && st.StartTicks == old.StartTicks && st.State != 'Z' {
			alive = append(alive, old)
		}
	}
	h.list = append(alive, p)
}

// startHelper starts the steward's process: behind the wall of the ranks, in a pid namespace of its own, it becomes the tenant.
func (e *Enclosure) startHelper() (*steward.Helper, error) {
	wall := e.wall()
	wall.Net, wall.Alone = 0, true // it speaks to nobody but us
	ours, theirs, err := steward.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	defer null.Close()
	tree, err := inside.Start(e.helpers.ready, wall, inside.Command{
		Args: []string{deed.Argv0}, Itself: true, Env: []string{"FERMI_REPLICA=" + wall.Mark, "GOMAXPROCS=2"}, Each: [][]string{nil}, Dir: "/", Become: true, Program: e.program(),
	}, theirs.Fd(), []inside.Pipes{{null.Fd(), null.Fd()}})
	if err != nil {
		return nil, errors.Join(wallFault(e.Home.Replica, err), ours.Close())
	}
	if p, err := record.Describe(tree.PID); err == nil {
		e.helpers.add(p)
	}
	once := sync.OnceFunc(func() {
		_ = unix.PidfdSendSignal(tree.Handle, unix.SIGKILL, nil, 0)
		_ = unix.Close(tree.Handle)
	})
	return &steward.Helper{Conn: ours, Kill: once}, nil
}

// Dismiss ends the steward, and waits for its processes: nobody else reaps any more.
func (e *Enclosure) Dismiss() {
	const dismissFor = time.Second // a process that waits for a disk may not be ended
	e.helpers.ready.Drop()
	e.Home.Steward.Close()
	for _, p := range e.helpers.all() {
		for late := time.Now().Add(dismissFor); time.Now().Before(late); time.Sleep(time.Millisecond) {
			if pid, err := unix.Wait4(p.PID, nil, unix.WALL|unix.WNOHANG, nil); pid == p.PID || errors.Is(err, unix.ECHILD) {
				break
			}
		}
	}
}
