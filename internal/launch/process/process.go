package process

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/bell"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/launch/spool"
)

// Set are the ranks of one generation and their pipes.
type Set struct {
	N     int
	base  int          // the first one's local rank
	PIDs  []int        // of the ranks; behind a wall only process 1
	Tree  *inside.Tree // nil without a wall
	said  <-chan ended // of ranks behind a standby's wall; nil otherwise
	pumps []*pump
	// Orphans: tell the end of every process behind the wall.
	Orphans bool
	Tails   []*tail        // what each rank printed last
	done    sync.WaitGroup // of the pumps, and of who hears process 1
	joined  []*Set         // ranks that took the places of dead ones beside others that stayed
}

// Starter runs the command in dir, once for each of each: plain, or behind a wall. When it fails
// p.pids are those that run nevertheless.
type Starter func(p *Set, r engine.Replica, dir string, env []string, each [][]string, stdin uintptr, out []inside.Pipes) error

// Sink is where what the ranks print goes.
type Sink struct {
	First int // rank
	Spool *spool.Spool
	Steps func(local int) Reader
}

// Reader hears what a rank prints. It is given what came through one of its pipes, and gives the end of it that is no whole
// line yet, for the next time. Both pipes call it, each in its own goroutine.
type Reader interface {
	Feed(part, data []byte) []byte
}

// Spawn starts the command in dir, a process for each of each, of which the first is local rank base. A startFault
// is the user's to mend.
func Spawn(r engine.Replica, dir string, env []string, each [][]string, base int, to Sink, start Starter) (*Set, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	p := &Set{N: len(each), base: base}
	out := make([]inside.Pipes, len(each))
	for i := range out {
		p.Tails = append(p.Tails, &tail{})
		steps := to.Steps(base + i)
		for k, stream := range []byte{'O', 'E'} {
			read, write, err := os.Pipe()
			if err != nil {
				p.closePipes()
				return nil, fmt.Errorf("make pipe: %w", err)
			}
			defer write.Close() // ours; the process has its own
			p.pumps = append(p.pumps, &pump{
				rank: to.First + base + i, stream: stream, r: read, spool: to.Spool, tail: p.Tails[i], steps: steps, ended: make(chan struct{}),
			})
			// Fd would make the pipe blocking for the process too, which is what programs expect.
			out[i][k] = write.Fd()
		}
	}
	if Lookup(env, "PWD") == "" {
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

// Finder is the program that a command names in this directory with this PATH.
type Finder func(name, dir, path string) (string, error)

// Plain starts them as who we are.
func (find Finder) Plain(p *Set, r engine.Replica, dir string, env []string, each [][]string, stdin uintptr, out []inside.Pipes) error {
	file, err := find(r.Command[0], dir, Lookup(env, "PATH"))
	if err != nil {
		return err
	}
	for i, own := range each {
		pid, err := syscall.ForkExec(file, inside.Args(file, r.Command), &syscall.ProcAttr{
			Dir: dir, Env: append(env[:len(env):len(env)], own...), Files: []uintptr{stdin, out[i][0], out[i][1]},
			Sys: &syscall.SysProcAttr{Setsid: true},
		})
		if err != nil {
			for _, pid := range p.PIDs { // our own children, not yet reaped
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			return SpawnFault(r.Command[0], err)
		}
		p.PIDs = append(p.PIDs, pid)
		// If memory runs out, the work goes first and its launcher stays to tell the tale.
		_ = os.WriteFile(filepath.Join("/proc", strconv.Itoa(pid), "oom_score_adj"), []byte("200"), 0)
	}
	return nil
}

func (p *Set) closePipes() {
	for _, pump := range p.pumps {
		pump.r.Close()
	}
}

// Drained ends the pumps after the tree has ended.
func (p *Set) Drained() {
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

// Hear brings process 1's word of the ranks' ends to the loop, which is woken by children; nil without a wall.
func (p *Set) Hear(children chan struct{}) <-chan ended {
	if p.Tree == nil {
		return p.said
	}
	said := make(chan ended, p.N)
	p.done.Go(func() { // ends with process 1
		defer func() {
			close(said)
			bell.Ring(children)
		}()
		for {
			i, ws, err := p.Tree.Ended()
			if err != nil || i < 0 || i >= p.N {
				return
			}
			said <- ended{p.base + i, unix.WaitStatus(ws)} // one each: never full
			bell.Ring(children)
		}
	})
	return said
}

// Reaper collects every child: the ranks and the orphans we adopt as subreaper.
type Reaper struct {
	mu    sync.Mutex  // of main, which others ask for while we reap
	main  map[int]int // pid → local rank; behind a wall process 1 → -1
	walls []*voice
	Ends  []*unix.WaitStatus
	Left  int // ranks that have not ended
	First int // the local rank that failed first; -1: none
	// Settled: first stays what it is, the others are being ended by us.
	Settled bool
	// Done are local ranks that were done before their process was ended by us: it counts as a good end.
	Done map[int]bool

	spent *Spent
	Empty bool // there is no child at all
}

// Spent is what the ended processes of all generations used.
type Spent struct {
	CPU    time.Duration
	MaxRSS int64 // of the largest single one
	Peak   int64 // of the samples
}

// voice is process 1 of a wall, which tells the ends of the ranks behind it.
type voice struct {
	pid   int
	said  <-chan ended // nil: it has said everything
	ranks map[int]bool // local ones
	gone  *unix.WaitStatus
}

func NewReaper(p *Set, said <-chan ended, s *Spent) *Reaper {
	r := &Reaper{spent: s, main: map[int]int{}, Done: map[int]bool{}, Ends: make([]*unix.WaitStatus, p.N), First: -1}
	r.Add(p, said)
	return r
}

// Add takes on ranks, each of which has ended before or is new.
func (r *Reaper) Add(p *Set, said <-chan ended) {
	if said == nil {
		r.mu.Lock()
		for i, pid := range p.PIDs {
			r.main[pid] = p.base + i
		}
		r.mu.Unlock()
	} else {
		v := r.voiceOf(p.PIDs[0], said)
		for i := range p.N {
			v.ranks[p.base+i] = true
		}
	}
	for i := range p.N {
		r.Ends[p.base+i] = nil
		delete(r.Done, p.base+i)
	}
	r.Left += p.N
}

func (r *Reaper) voiceOf(pid int, said <-chan ended) *voice {
	for _, v := range r.walls {
		if v.pid == pid {
			return v
		}
	}
	v := &voice{pid: pid, said: said, ranks: map[int]bool{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.walls, r.main[pid] = append(r.walls, v), -1
	return v
}

// PIDs are our children of the generation that were not reaped yet: ranks, and process 1 of their walls.
func (r *Reaper) PIDs() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.main))
}

// PIDOf is the process of a local rank; 0: it was reaped, or is behind a wall. Anybody may ask.
func (r *Reaper) PIDOf(local int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pid, i := range r.main {
		if i == local {
			return pid
		}
	}
	return 0
}

// Knows says that a process is one of PIDs.
func (r *Reaper) Knows(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ours := r.main[pid]
	return ours
}

// Dead are the local ranks that have ended.
func (r *Reaper) Dead() (list []int) {
	for i, ws := range r.Ends {
		if ws != nil {
			list = append(list, i)
		}
	}
	return list
}

// Reap takes all that have ended by now.
func (r *Reaper) Reap() {
	r.take()
	for _, v := range r.walls {
		r.hear(v)
	}
}

// hear takes what a process 1 has said.
func (r *Reaper) hear(v *voice) {
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
func (r *Reaper) note(local int, ws unix.WaitStatus) {
	if r.Ends[local] != nil {
		return
	}
	if r.Done[local] {
		ws = 0
	}
	r.Ends[local] = &ws
	r.Left--
	failed := ws.Signaled() || ws.ExitStatus() != 0
	if failed && !r.Settled && (r.First < 0 || ws.Signaled() && !r.Ends[r.First].Signaled()) {
		r.First = local
	}
}

func (r *Reaper) take() {
	for {
		var ws unix.WaitStatus
		var ru unix.Rusage
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG|unix.WALL, &ru)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil: // ECHILD
			r.Empty = true
			return
		case pid <= 0:
			r.Empty = false
			return
		}
		r.spent.CPU += time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
		r.spent.MaxRSS = max(r.spent.MaxRSS, ru.Maxrss*1024)
		r.mu.Lock()
		local, main := r.main[pid]
		delete(r.main, pid) // another may get its number
		r.mu.Unlock()
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

// ExitOf says how a rank ended, before anyone asks why.
func ExitOf(ws unix.WaitStatus) engine.Exit {
	if ws.Signaled() {
		sig := ws.Signal()
		return engine.Exit{Code: 128 + int(sig), Signal: unix.SignalName(sig), Reason: engine.ReasonSignaled}
	}
	if code := ws.ExitStatus(); code != 0 {
		return engine.Exit{Code: code, Reason: engine.ReasonNonZero}
	}
	return engine.Exit{Reason: engine.ReasonSucceeded}
}

func StartRecord(pid int, cgroup string, at time.Time) record.Start {
	p, err := record.Describe(pid)
	if err != nil {
		p = record.Process{PID: pid} // it has ended already; a zombie would still be there
	}
	p.Cgroup = cgroup
	return record.Start{Process: p, At: at, Up: record.Uptime()}
}

// discardFor is how long the end of discarded processes is waited for.
const discardFor = 2 * time.Second

// Discard kills what a trial started and waits for its end, for a moment: a process that hangs in a driver
// can't be waited for.
func (p *Set) Discard() {
	for _, pid := range p.PIDs {
		_ = unix.Kill(-pid, unix.SIGKILL) // our own child, not yet reaped, and what it started: each leads a session
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for _, pid := range p.PIDs {
			for {
				if _, err := unix.Wait4(pid, nil, unix.WALL, nil); !errors.Is(err, unix.EINTR) {
					break
				}
			}
		}
		for p.Tree != nil {
			if _, _, err := p.Tree.Ended(); err != nil {
				break // closed
			}
		}
	}()
	select {
	case <-gone:
	case <-time.After(discardFor):
	}
}

// Replace puts a rank's new process in the place of the old one's.
func (p *Set) Replace(local, rank int, by *Set) {
	p.pumps = slices.DeleteFunc(p.pumps, func(old *pump) bool {
		if old.rank == rank {
			old.finish()
		}
		return old.rank == rank
	})
	p.pumps, p.Tails[local] = append(p.pumps, by.pumps...), by.Tails[0]
	p.joined = append(p.joined, by)
}

func Lookup(env []string, name string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// OwnBinary is this very program, also when its file was replaced meanwhile.
const OwnBinary = "/proc/self/exe"
