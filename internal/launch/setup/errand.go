package setup

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/chore"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/launch/process"
)

// errand is a chore on its way: a process behind a wall of its own, or, where there is no tenant, one like any other of ours.
type errand struct {
	in     *os.File // its order, and what follows; ours
	out    *os.File // its result
	pid    int
	handle int
	tree   *inside.Tree // of one that is root of a user namespace
	// progress hears how far it is; nil: nobody does.
	progress func(done, total int64)
}

// choreWall is the wall around a chore: that of the ranks, but on the machine's own file system, whose certificates count.
func (e *Enclosure) choreWall() inside.Wall {
	wall := e.wall()
	wall.Root, wall.Stage, wall.Placed = "", "", nil
	return wall
}

// send starts a process for a chore and gives it its order.
func (e *Enclosure) send(o chore.Order) (*errand, error) {
	return e.sendTo(e.choreWall(), o, nil)
}

// sendTo is send behind another wall; other is what the process has instead of standard error, nil: nothing.
func (e *Enclosure) sendTo(wall inside.Wall, o chore.Order, other *os.File) (*errand, error) {
	return sendAs(wall, e.Home.Tenant.UID != 0, o, other, []string{
		"FERMI_REPLICA=" + string(e.Home.Replica.Name), "PATH=" + defaultPath, "HOME=" + filepath.Join(e.Home.Dir, record.DirHome), "TMPDIR=" + e.Home.tmp(),
	}, e.program())
}

// tmp is the temporary folder of the replica, as its processes see it.
func (h *Home) tmp() string {
	if h.Tenant.UID != 0 {
		return "/tmp"
	}
	return filepath.Join(h.Dir, record.DirTmp)
}

func sendAs(wall inside.Wall, walled bool, o chore.Order, other *os.File, env []string, program string) (*errand, error) {
	read, give, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	hear, write, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, give.Close())
	}
	defer write.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, give.Close(), hear.Close())
	}
	defer null.Close()
	third := null.Fd()
	if other != nil {
		third = other.Fd()
	}
	e := &errand{in: give, out: hear}
	if len(wall.IDs) > 0 {
		if e.tree, e.handle, err = startRooted(wall, env, program, read.Fd(), write.Fd(), third); err == nil {
			e.pid = e.tree.PID
		}
	} else {
		e.pid, e.handle, err = startChore(wall, walled, env, program, read.Fd(), write.Fd(), third)
	}
	if err != nil {
		return nil, errors.Join(err, give.Close(), hear.Close())
	}
	_, _ = read.Close(), write.Close()            // or we would not hear of its end
	if sent := chore.Send(give, o); sent != nil { // it ended before it had heard all
		if _, err := e.result(); err != nil {
			return nil, err
		}
		return nil, sent
	}
	return e, nil
}

// startChore starts this program again, as who does chores.
func startChore(wall inside.Wall, walled bool, env []string, program string, in, out, null uintptr) (pid, handle int, err error) {
	if !walled {
		handle = -1
		pid, err = syscall.ForkExec(process.OwnBinary, []string{chore.Argv0}, &syscall.ProcAttr{Dir: "/", Env: env, Files: []uintptr{in, out, null}, Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &handle}})
		return pid, handle, err
	}
	tree, err := inside.Start(nil, wall, inside.Command{Args: []string{chore.Argv0}, File: process.OwnBinary, Env: env, Each: [][]string{nil}, Dir: "/", Become: true, Program: program},
		in, []inside.Pipes{{out, null}})
	if err != nil {
		return 0, 0, err
	}
	return tree.PID, tree.Handle, nil
}

// kill ends it at once.
func (e *errand) kill() { _ = unix.PidfdSendSignal(e.handle, unix.SIGKILL, nil, 0) }

// result hears what came of it, reaps the process, and lets go of everything. Nobody else reaps while chores are done.
func (e *errand) result() (chore.Result, error) {
	_ = e.in.Close()
	r, err := chore.Hear(e.out, e.progress)
	_ = e.out.Close()
	e.kill() // it has said all it had to say
	for {
		if _, err := unix.Wait4(e.pid, nil, unix.WALL, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = unix.Close(e.handle)
	for e.tree != nil {
		if _, _, err := e.tree.Ended(); err != nil { // it lets go of the tree
			break
		}
	}
	return r, err
}

// runChore does a chore that needs nothing but its order; it is given up with ctx.
func (e *Enclosure) runChore(ctx context.Context, o chore.Order) (chore.Result, error) {
	way, err := e.send(o)
	if err != nil {
		return chore.Result{}, err
	}
	defer context.AfterFunc(ctx, way.kill)()
	r, err := way.result()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return r, err
}

// feed does a chore that reads a stream, which source writes.
func (e *Enclosure) feed(ctx context.Context, o chore.Order, source func(io.Writer) error) error {
	way, err := e.send(o)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, way.kill)()
	fed := source(way.in)
	_, err = way.result()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case fed != nil && !errors.Is(fed, unix.EPIPE): // otherwise it did not want more, and has said why
		return fed
	}
	return err
}
