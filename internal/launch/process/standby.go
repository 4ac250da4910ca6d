package process

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/bell"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// A standby is a Python interpreter beside the ranks, of no generation, with the imports done: the
// ranks of the next generation are forked from it. It is a convenience: whatever it can't do, or
// does wrong, a fresh interpreter does.

// standby is a running one, or one that was.
type standby struct {
	log      *slog.Logger
	children chan struct{} // the launcher's
	conn     *net.UnixConn
	pid      int              // our child: the interpreter or, behind a wall, process 1
	tree     *inside.Tree     // nil without a wall
	own      []record.Process // who belongs to no generation
	ready    chan struct{}    // closed: the imports are done
	gone     chan struct{}    // closed: it answers nothing any more
	answers  chan standbyWord
	requests int

	said  chan ended // behind a wall: the ends of ranks; closed with process 1
	mu    sync.Mutex
	local map[int]int             // likewise: pid in there → local rank; nil: process 1 has ended
	early map[int]unix.WaitStatus // ends of those whose pid we don't know yet
}

// usable says whether ranks can be forked from it.
func (s *standby) usable() bool {
	if !s.alive() {
		return false
	}
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

func (s *standby) alive() bool {
	if s == nil {
		return false
	}
	select {
	case <-s.gone:
		return false
	default:
		return true
	}
}

// spares are the processes that no generation ends.
func (s *standby) spares() []record.Process {
	if !s.alive() {
		return nil
	}
	return s.own
}

// Nursery keeps at most one standby. It is of the loop that starts generations, which alone calls it.
type Nursery struct {
	Log      *slog.Logger
	Children chan struct{}  // the launcher's: poked when a rank behind a standby's wall ended
	Ranks    int            // that are forked at once, at most
	now      *standby       // nil: none
	hearing  sync.WaitGroup // of those that were
}

// Keep starts a standby where one is wished and none is there, beside ranks that were not forked;
// it needs one only who may be restarted. What fails is no reason not to run.
func (n *Nursery) Keep(hold bool, r engine.Replica, dir string, env []string, each []string, start Starter) {
	wish := r.Standby
	if !hold || wish == nil || wish.Disabled || !recipe.Python(r.Command) || n.now.alive() {
		return
	}
	n.End()
	own := slices.DeleteFunc(slices.Clone(each), ofARank)
	own = append(own, "FERMI_STANDBY_PRELOAD="+strings.Join(wish.Preload, ","))
	r.Command = []string{r.Command[0], "-m", "fermi.standby"}
	s, err := n.start(r, dir, env, own, start)
	if err != nil {
		n.Log.Warn("no standby", "error", err)
		return
	}
	n.now = s
}

// ofARank says that a variable is one rank's own, and would be wrong in another's process.
func ofARank(kv string) bool {
	name, _, _ := strings.Cut(kv, "=")
	switch name {
	case "RANK", "LOCAL_RANK", "GROUP_RANK", "GROUP_WORLD_SIZE", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT":
		return true
	}
	return strings.HasPrefix(name, "FERMI_")
}

// start runs the interpreter behind the same wall as the ranks, our end of a socket pair as its
// standard input: nobody else can speak to it.
func (n *Nursery) start(r engine.Replica, dir string, env, own []string, start Starter) (*standby, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "standby")
	defer theirs.Close()
	ours := os.NewFile(uintptr(pair[0]), "standby")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		conn.Close()
		return nil, err
	}
	defer null.Close()
	p := &Set{N: 1, Orphans: true}
	if err := start(p, r, dir, env, [][]string{own}, theirs.Fd(), []inside.Pipes{{null.Fd(), null.Fd()}}); err != nil {
		conn.Close()
		return nil, err
	}
	s := &standby{
		log: n.Log, children: n.Children, conn: conn.(*net.UnixConn), pid: p.PIDs[0], tree: p.Tree,
		ready: make(chan struct{}), gone: make(chan struct{}), answers: make(chan standbyWord, 1),
		local: map[int]int{}, said: make(chan ended, n.Ranks), // one each: never full
	}
	interpreter := s.describe()
	lowered := interpreter > 0 && lower(interpreter)
	n.hearing.Go(func() { s.hear(interpreter, lowered) }) // ends with the connection
	if s.tree != nil {
		n.hearing.Go(s.hearEnds) // ends with process 1
	}
	return s, nil
}

// describe finds the standby's processes and gives the pid of the interpreter; 0: it has ended.
func (s *standby) describe() (interpreter int) {
	pids := []int{s.pid}
	if s.tree != nil {
		for pid, st := range ReadAll() {
			if st.PPID == s.pid { // the first child of process 1, and as yet its only one
				pids = append(pids, pid)
			}
		}
	}
	for _, pid := range pids {
		if proc, err := record.Describe(pid); err == nil {
			s.own = append(s.own, proc)
		}
	}
	if s.tree != nil && len(pids) == 1 {
		return 0
	}
	return pids[len(pids)-1]
}

// lowNice is the priority of the imports: they never take much from running ranks.
const lowNice = 10

// lower makes a process low where it can be raised again: its forks inherit it.
func lower(pid int) bool {
	can := make(chan bool)
	go func() {
		runtime.LockOSThread() // never unlocked: should the way back be closed, the thread ends with this goroutine
		thread := unix.Gettid()
		now, err := niceOf(thread)
		can <- err == nil && unix.Setpriority(unix.PRIO_PROCESS, thread, min(now+1, 19)) == nil && unix.Setpriority(unix.PRIO_PROCESS, thread, now) == nil
	}()
	return <-can && unix.Setpriority(unix.PRIO_PROCESS, pid, lowNice) == nil
}

// niceOf undoes the kernel's way of saying it without negative numbers.
func niceOf(pid int) (int, error) {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	return 20 - raw, err
}

// OwnNice is what our children have by rights: that of our process when it was first asked, which is after we gave up what our maker has above others, and
// before any thread of ours is lowered, the first of them perhaps, by which the kernel would answer for the process.
var OwnNice = sync.OnceValues(func() (int, error) { return niceOf(os.Getpid()) })

// standbyWord is what a standby says; exactly one is set.
type standbyWord struct {
	Ready  *struct{} `json:"ready"`
	Forked *struct {
		ID   int   `json:"id"`
		PIDs []int `json:"pids"`
	} `json:"forked"`
	Refused *struct {
		ID  *int   `json:"id"`
		Why string `json:"why"`
	} `json:"refused"`
}

// parseStandby reads one line strictly.
func parseStandby(line []byte) (w standbyWord, err error) {
	if err := word.ParseLine(line, &w); err != nil {
		return w, err
	}
	if word.Count(w.Ready != nil, w.Forked != nil, w.Refused != nil) != 1 || w.Forked != nil && slices.ContainsFunc(w.Forked.PIDs, func(pid int) bool { return pid <= 1 }) {
		return w, fmt.Errorf("%w: no word of a standby", word.ErrWord)
	}
	return w, nil
}

// hear takes what the standby says until it is gone.
func (s *standby) hear(interpreter int, lowered bool) {
	defer close(s.gone)
	defer s.conn.Close()
	lines := bufio.NewScanner(s.conn)
	lines.Buffer(make([]byte, 1<<10), word.MaxWord)
	ready := false
	for lines.Scan() {
		w, err := parseStandby(lines.Bytes())
		switch {
		case err != nil:
			s.log.Warn("the standby was not understood", "error", err)
			return
		case w.Ready == nil:
			select {
			case s.answers <- w:
			default: // nobody asked
				s.log.Warn("the standby speaks unasked")
				return
			}
		case ready:
			return
		default:
			ready = true
			if lowered {
				own, err := OwnNice()
				if err = errors.Join(err, unix.Setpriority(unix.PRIO_PROCESS, interpreter, own)); err != nil {
					s.log.Warn("the standby can't be raised again; it is not used", "error", err)
					return
				}
			}
			s.log.Info("standby ready")
			close(s.ready)
		}
	}
}

// hearEnds brings process 1's word of the forked ranks' ends to the generation they are of.
func (s *standby) hearEnds() {
	for {
		process, pid, ws, err := s.tree.EndedOrphan()
		s.mu.Lock()
		if err != nil {
			close(s.said)
			s.local = nil
			s.mu.Unlock()
			bell.Ring(s.children)
			return
		}
		if process < 0 {
			s.ended(pid, unix.WaitStatus(ws))
		}
		s.mu.Unlock()
	}
}

// ended is the end of a process behind the wall, mu held.
func (s *standby) ended(pid int, ws unix.WaitStatus) {
	i, ours := s.local[pid]
	switch {
	case ours:
		delete(s.local, pid) // another may get its number
		s.said <- ended{i, ws}
		bell.Ring(s.children)
	case s.early != nil:
		s.early[pid] = ws
	}
}

// forkPatience is how long a fork may take on a machine that is short of everything.
const forkPatience = 10 * time.Second

// Fork is a starter: the ranks are children of the standby, with its imports. When it fails some of them
// may run nevertheless.
func (s *standby) Fork(p *Set, r engine.Replica, dir string, env []string, each [][]string, _ uintptr, out []inside.Pipes) error {
	if s.tree != nil {
		s.mu.Lock()
		s.early = map[int]unix.WaitStatus{}
		p.said, p.PIDs = s.said, []int{s.pid}
		s.mu.Unlock()
	}
	pids, err := s.ask(r.Command, dir, env, each, out)
	if err != nil {
		return err
	}
	if s.tree != nil {
		s.forked(pids, p.base)
		return nil
	}
	for _, pid := range pids {
		if st, err := record.ReadStat(pid); err != nil || st.PPID != os.Getpid() {
			return fmt.Errorf("process %d is no child of ours", pid)
		}
	}
	p.PIDs = pids
	return nil
}

// forked notes the ranks' pids behind the wall; one may have ended before we knew it.
func (s *standby) forked(pids []int, base int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	early := s.early
	s.early = nil
	if s.local == nil {
		return // process 1 has ended, and they with it
	}
	for i, pid := range pids {
		s.local[pid] = base + i
	}
	for pid, ws := range early {
		s.ended(pid, ws)
	}
}

// ask has the processes made.
func (s *standby) ask(argv []string, dir string, env []string, each [][]string, out []inside.Pipes) (pids []int, err error) {
	s.requests++
	own := make([]map[string]string, len(each))
	var files []int
	for i := range each {
		own[i] = byName(each[i])
		files = append(files, int(out[i][0]), int(out[i][1]))
	}
	line, err := json.Marshal(map[string]any{"fork": map[string]any{"id": s.requests, "argv": argv, "cwd": dir, "env": byName(env), "each": own}})
	if err != nil {
		return nil, err
	}
	if len(line) >= word.MaxWord {
		return nil, errors.New("arguments and environment are too long for a standby")
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(forkPatience))
	line = append(line, '\n')
	n, _, err := s.conn.WriteMsgUnix(line, unix.UnixRights(files...), nil)
	if err == nil && n < len(line) {
		_, err = s.conn.Write(line[n:])
	}
	if err != nil {
		return nil, err
	}
	return s.answer(len(each))
}

// answer waits for the word about the last request, for so many processes.
func (s *standby) answer(n int) ([]int, error) {
	late := time.NewTimer(forkPatience)
	defer late.Stop()
	select {
	case w := <-s.answers:
		switch {
		case w.Forked != nil && w.Forked.ID == s.requests && len(w.Forked.PIDs) == n:
			return w.Forked.PIDs, nil
		case w.Refused != nil:
			return nil, fmt.Errorf("refused: %.200q", w.Refused.Why)
		}
		return nil, errors.New("the standby answered another question")
	case <-s.gone:
		return nil, errors.New("the standby has ended")
	case <-late.C:
		return nil, errors.New("the standby does not answer")
	}
}

// byName are variables as a standby wants them.
func byName(env []string) map[string]string {
	vars := map[string]string{}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		vars[name] = value
	}
	return vars
}

// Tidy removes the files that ended ranks left in the wall's own shared memory, which outlives them. No
// rank runs; folders stay, since something may be mounted below.
func (s *standby) Tidy() {
	if s.tree == nil {
		return
	}
	dir := filepath.Join("/proc", strconv.Itoa(s.pid), "root", "dev", "shm")
	list, err := os.ReadDir(dir)
	if err != nil {
		return // a machine without it
	}
	for _, e := range list {
		if !e.IsDir() {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// TellWarm tells when the imports of the standby are done, so that ranks could be forked at once, and when they are lost.
func (n *Nursery) TellWarm(tell func(bool)) {
	s := n.now
	if s == nil {
		return
	}
	n.hearing.Go(func() { // ends with the standby
		select {
		case <-s.ready:
			tell(true)
			<-s.gone
			tell(false)
		case <-s.gone:
		}
	})
}

// Usable is the standby that ranks can be forked from; nil: none.
func (n *Nursery) Usable() *standby {
	if n.now.usable() {
		return n.now
	}
	return nil
}

// Spares are the processes that no generation ends.
func (n *Nursery) Spares() []record.Process { return n.now.spares() }

// End kills it, and behind its wall all that is left there: no generation is.
func (n *Nursery) End() {
	if n.now == nil {
		return
	}
	n.now.conn.Close()
	for _, p := range n.now.own {
		if err := p.Signal(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			n.Log.Warn("the standby can't be killed", "error", err)
		}
	}
	n.now = nil
}

// Reap ends it after the last generation, when nobody else reaps any more.
func (n *Nursery) Reap() {
	defer n.hearing.Wait()
	if n.now == nil {
		return
	}
	pid := n.now.pid
	n.End()
	for {
		if _, err := unix.Wait4(pid, nil, unix.WALL, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
