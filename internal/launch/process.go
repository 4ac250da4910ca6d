package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
)

// process is the user's main process and its pipes.
type process struct {
	pid   int
	tree  *inside.Tree // nil without a wall: pid is then the main process itself
	pumps []*pump
	done  sync.WaitGroup // of the pumps
}

// starter runs the command in dir with these files: plain, or behind a wall.
type starter func(p *process, r engine.Replica, dir string, env []string, files [3]uintptr) error

// spawn starts the command in dir. A startFault is the user's to mend.
func spawn(r engine.Replica, dir string, env []string, s *spool, start starter) (*process, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	p := &process{}
	files := [3]uintptr{null.Fd()}
	for i, stream := range []byte{'O', 'E'} {
		read, write, err := os.Pipe()
		if err != nil {
			p.closePipes()
			return nil, fmt.Errorf("make pipe: %w", err)
		}
		defer write.Close() // ours; the process has its own
		p.pumps = append(p.pumps, &pump{stream: stream, r: read, spool: s})
		// Fd would make the pipe blocking for the process too, which is what programs expect.
		files[1+i] = write.Fd()
	}
	if lookupIn(env, "PWD") == "" {
		env = append(env, "PWD="+dir)
	}
	if err := start(p, r, dir, env, files); err != nil {
		p.closePipes()
		return nil, err
	}
	for _, pump := range p.pumps {
		p.done.Go(pump.run)
	}
	return p, nil
}

// plain starts it as who we are.
func plain(p *process, r engine.Replica, dir string, env []string, files [3]uintptr) error {
	file, err := findProgram(r.Command[0], dir, lookupIn(env, "PATH"))
	if err != nil {
		return err
	}
	p.pid, err = syscall.ForkExec(file, r.Command, &syscall.ProcAttr{
		Dir: dir, Env: env, Files: files[:], Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return spawnFault(file, err)
	}
	// If memory runs out, the work goes first and its launcher stays to tell the tale.
	_ = os.WriteFile(filepath.Join("/proc", strconv.Itoa(p.pid), "oom_score_adj"), []byte("200"), 0)
	return nil
}

func (p *process) closePipes() {
	for _, pump := range p.pumps {
		pump.r.Close()
	}
}

// drained ends the pumps after the tree has ended.
func (p *process) drained() {
	for _, pump := range p.pumps {
		pump.finish()
	}
	p.done.Wait()
}

// reaper collects every child: the main process and the orphans we adopt as subreaper.
type reaper struct {
	main   int
	said   <-chan unix.WaitStatus // behind a wall: the main process's end, by process 1, which is main
	gone   bool                   // main was reaped
	ended  bool                   // the main process has ended, with status
	status unix.WaitStatus
	cpu    time.Duration // of all that ended
	maxRSS int64         // of the largest single one
	empty  bool          // there is no child at all
}

// reap takes all that have ended by now.
func (r *reaper) reap() {
	r.take()
	if r.ended {
		return
	}
	if r.said == nil {
		r.ended = r.gone
		return
	}
	var ws unix.WaitStatus
	heard := false
	if r.gone {
		ws, heard = <-r.said // it ended with process 1 at the latest
	} else {
		select {
		case ws, heard = <-r.said:
		default:
		}
	}
	if heard {
		r.status = ws
	}
	r.ended = heard || r.gone // unheard: killed with process 1, whose status it shares
}

func (r *reaper) take() {
	for {
		var ws unix.WaitStatus
		var ru unix.Rusage
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG|unix.WALL, &ru)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil: // ECHILD
			r.empty = true
			return
		case pid <= 0:
			r.empty = false
			return
		}
		r.cpu += time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
		r.maxRSS = max(r.maxRSS, ru.Maxrss*1024)
		if pid == r.main {
			r.gone = true
			if !r.ended {
				r.status = ws
			}
		}
	}
}

// exitOf says how the main process ended, before anyone asks why.
func exitOf(ws unix.WaitStatus) engine.Exit {
	if ws.Signaled() {
		sig := ws.Signal()
		return engine.Exit{Code: 128 + int(sig), Signal: unix.SignalName(sig), Reason: engine.ReasonSignaled}
	}
	if code := ws.ExitStatus(); code != 0 {
		return engine.Exit{Code: code, Reason: engine.ReasonNonZero}
	}
	return engine.Exit{Reason: engine.ReasonSucceeded}
}

func startRecord(pid int, cgroup string, at time.Time) record.Start {
	p, err := record.Describe(pid)
	if err != nil {
		p = record.Process{PID: pid} // it has ended already; a zombie would still be there
	}
	p.Cgroup = cgroup
	return record.Start{Process: p, At: at}
}
