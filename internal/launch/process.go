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

// processes are the ranks of one generation and their pipes.
type processes struct {
	n     int
	base  int          // the first one's local rank
	pids  []int        // of the ranks; behind a wall only process 1
	tree  *inside.Tree // nil without a wall
	said  <-chan ended // of ranks behind a standby's wall; nil otherwise
	pumps []*pump
	// orphans: tell the end of every process behind the wall.
	orphans bool
	tails   []*tail        // what each rank printed last
	done    sync.WaitGroup // of the pumps, and of who hears process 1
	joined  []*processes   // ranks that took the places of dead ones beside others that stayed
}

// starter runs the command in dir, once for each of each: plain, or behind a wall. When it fails
// p.pids are those that run nevertheless.
type starter func(p *processes, r engine.Replica, dir string, env []string, each [][]string, stdin uintptr, out []inside.Pipes) error

// sink is where what the ranks print goes.
type sink struct {
	first int // rank
	spool *spool
	steps func(local int) reader
}

// reader hears what a rank prints. It is given what came through one of its pipes, and gives the end of it that is no whole
// line yet, for the next time. Both pipes call it, each in its own goroutine.
type reader interface {
	Feed(part, data []byte) []byte
}

// spawn starts the command in dir, a process for each of each, of which the first is local rank base. A startFault
// is the user's to mend.
func spawn(r engine.Replica, dir string, env []string, each [][]string, base int, to sink, start starter) (*processes, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	p := &processes{n: len(each), base: base}
	out := make([]inside.Pipes, len(each))
	for i := range out {
		p.tails = append(p.tails, &tail{})
		steps := to.steps(base + i)
		for k, stream := range []byte{'O', 'E'} {
			read, write, err := os.Pipe()
			if err != nil {
				p.closePipes()
				return nil, fmt.Errorf("make pipe: %w", err)
			}
			defer write.Close() // ours; the process has its own
			p.pumps = append(p.pumps, &pump{
				rank: to.first + base + i, stream: stream, r: read, spool: to.spool, tail: p.tails[i], steps: steps, ended: make(chan struct{}),
			})
			// Fd would make the pipe blocking for the process too, which is what programs expect.
			out[i][k] = write.Fd()
		}
	}
	if lookupIn(env, "PWD") == "" {
		env = append(env, "PWD="+dir)
	}
	if err := start(p, r, dir, env, each, null.Fd(), out); err != nil {
		p.closePipes()
		return nil, err
	}
	for _, pump := range p.pumps {
		p.done.Go(pump.run)
	}
	return p, nil
}

// finder is the program that a command names in this directory with this PATH.
type finder func(name, dir, path string) (string, error)

// plain starts them as who we are.
func (find finder) plain(p *processes, r engine.Replica, dir string, env []string, each [][]string, stdin uintptr, out []inside.Pipes) error {
	file, err := find(r.Command[0], dir, lookupIn(env, "PATH"))
	if err != nil {
		return err
	}
	for i, own := range each {
		pid, err := syscall.ForkExec(file, inside.Args(file, r.Command), &syscall.ProcAttr{
			Dir: dir, Env: append(env[:len(env):len(env)], own...), Files: []uintptr{stdin, out[i][0], out[i][1]},
			Sys: &syscall.SysProcAttr{Setsid: true},
		})
		if err != nil {
			for _, pid := range p.pids { // our own children, not yet reaped
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			return spawnFault(r.Command[0], err)
		}
		p.pids = append(p.pids, pid)
		// If memory runs out, the work goes first and its launcher stays to tell the tale.
		_ = os.WriteFile(filepath.Join("/proc", strconv.Itoa(pid), "oom_score_adj"), []byte("200"), 0)
	}
	return nil
}

func (p *processes) closePipes() {
	for _, pump := range p.pumps {
		pump.r.Close()
	}
}

// drained ends the pumps after the tree has ended.
func (p *processes) drained() {
	for _, pump := range p.pumps {
		pump.finish()
	}
	p.done.Wait()
	for _, j := range p.joined {
		j.done.Wait()
	}
}

// ended is the end of one rank.
type ended struct {
	local  int
	status unix.WaitStatus
}

// hear brings process 1's word of the ranks' ends to the loop, which is woken by children; nil without a wall.
func (p *processes) hear(children chan struct{}) <-chan ended {
	if p.tree == nil {
		return p.said
	}
	said := make(chan ended, p.n)
	p.done.Go(func() { // ends with process 1
		defer func() {
			close(said)
			poke(children)
		}()
		for {
			i, ws, err := p.tree.Ended()
			if err != nil || i < 0 || i >= p.n {
				return
			}
			said <- ended{p.base + i, unix.WaitStatus(ws)} // one each: never full
			poke(children)
		}
	})
	return said
}

// reaper collects every child: the ranks and the orphans we adopt as subreaper.
type reaper struct {
	main  map[int]int // pid → local rank; behind a wall process 1 → -1
	walls []*voice
	ends  []*unix.WaitStatus
	left  int // ranks that have not ended
	first int // the local rank that failed first; -1: none
	// settled: first stays what it is, the others are being ended by us.
	settled bool

	spent *spent
	empty bool // there is no child at all
}

// spent is what the ended processes of all generations used.
type spent struct {
	cpu    time.Duration
	maxRSS int64 // of the largest single one
	peak   int64 // of the samples
}

// voice is process 1 of a wall, which tells the ends of the ranks behind it.
type voice struct {
	pid   int
	said  <-chan ended // nil: it has said everything
	ranks map[int]bool // local ones
	gone  *unix.WaitStatus
}

func newReaper(p *processes, said <-chan ended, s *spent) *reaper {
	r := &reaper{spent: s, main: map[int]int{}, ends: make([]*unix.WaitStatus, p.n), first: -1}
	r.add(p, said)
	return r
}

// add takes on ranks, each of which has ended before or is new.
func (r *reaper) add(p *processes, said <-chan ended) {
	if said == nil {
		for i, pid := range p.pids {
			r.main[pid] = p.base + i
		}
	} else {
		v := r.voiceOf(p.pids[0], said)
		for i := range p.n {
			v.ranks[p.base+i] = true
		}
	}
	for i := range p.n {
		r.ends[p.base+i] = nil
	}
	r.left += p.n
}

func (r *reaper) voiceOf(pid int, said <-chan ended) *voice {
	for _, v := range r.walls {
		if v.pid == pid {
			return v
		}
	}
	v := &voice{pid: pid, said: said, ranks: map[int]bool{}}
	r.walls, r.main[pid] = append(r.walls, v), -1
	return v
}

// reap takes all that have ended by now.
func (r *reaper) reap() {
	r.take()
	for _, v := range r.walls {
		r.hear(v)
	}
}

// hear takes what a process 1 has said.
func (r *reaper) hear(v *voice) {
	for v.said != nil {
		var e ended
		var more bool
		if v.gone != nil { // so the rest of its words and then their end are on their way
			e, more = <-v.said
		} else {
			select {
			case e, more = <-v.said:
			default:
				return
			}
		}
		if !more {
			v.said = nil
			break
		}
		delete(v.ranks, e.local)
		r.note(e.local, e.status)
	}
	if v.gone != nil {
		for i := range v.ranks { // unheard: killed with process 1, whose status they share
			r.note(i, *v.gone)
		}
		clear(v.ranks)
	}
}

// note is the end of a local rank. Of those that are seen at once the killed one counts as the first
// failure: the others may have died of it.
func (r *reaper) note(local int, ws unix.WaitStatus) {
	if r.ends[local] != nil {
		return
	}
	r.ends[local] = &ws
	r.left--
	failed := ws.Signaled() || ws.ExitStatus() != 0
	if failed && !r.settled && (r.first < 0 || ws.Signaled() && !r.ends[r.first].Signaled()) {
		r.first = local
	}
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
		r.spent.cpu += time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
		r.spent.maxRSS = max(r.spent.maxRSS, ru.Maxrss*1024)
		local, main := r.main[pid]
		delete(r.main, pid) // another may get its number
		switch {
		case main && local < 0:
			for _, v := range r.walls {
				if v.pid == pid {
					v.gone = &ws
				}
			}
		case main:
			r.note(local, ws)
		}
	}
}

// exitOf says how a rank ended, before anyone asks why.
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
