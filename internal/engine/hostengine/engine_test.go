package hostengine

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/engine/network"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// house is a directory with engines on it.
type house struct {
	t   *testing.T
	dir string
	exe string

	mu      sync.Mutex
	changes map[engine.Name][]engine.State
}

func newHouse(t *testing.T) *house {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "f")
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, dir: dir, exe: exe, changes: map[engine.Name][]engine.State{}}
	t.Cleanup(h.clean)
	return h
}

// clean ends everything that lives in the house, and fails the test for zombies.
func (h *house) clean() {
	folders, _ := filepath.Glob(filepath.Join(h.dir, "replicas", "*"))
	for _, dir := range folders {
		name := engine.Name(filepath.Base(dir))
		var p record.Process
		if ok, _ := record.Read(dir, record.FileLauncher, &p); ok {
			_ = p.Signal(syscall.SIGKILL)
		}
		g, _ := cgroup.Load(dir)
		if g == nil && cgroup.Detect().Version > 0 {
			g, _ = cgroup.Create(string(name), cgroup.Limits{})
		}
		eventually(h.t, "nothing of "+string(name)+" lives", func() bool {
			_ = g.Kill(syscall.SIGKILL)
			marked, _ := killMarked(name)
			pids, _ := g.Pids()
			return len(pids)+len(marked) == 0
		})
		reapRecorded(p)
		if err := g.Remove(); err != nil {
			h.t.Error(err)
		}
	}
	if err := os.RemoveAll(h.dir); err != nil {
		h.t.Error(err)
	}
	eventually(h.t, "no zombie is left", func() bool { return len(zombies()) == 0 })
}

// zombies are the dead children of this process.
func zombies() []int {
	var out []int
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		var pid int
		if _, err := fmt.Sscan(entry.Name(), &pid); err != nil {
			continue
		}
		if s, err := record.ReadStat(pid); err == nil && s.PPID == os.Getpid() && s.State == 'Z' {
			out = append(out, pid)
		}
	}
	return out
}

// open starts an engine; the function ends it and leaves the launchers.
func (h *house) open() (*Engine, func()) { return h.openOn(nil) }

func (h *house) openOn(n *network.Network) (*Engine, func()) {
	h.t.Helper()
	level := slog.LevelWarn
	if testing.Verbose() {
		level = slog.LevelDebug
	}
	e, err := New(Config{
		Dir: h.dir, Exe: h.exe, Endpoints: filepath.Join(h.dir, "endpoints"), Network: n,
		Mint: func(n engine.Name) string { return "token of " + string(n) },
		Log:  slog.New(slog.NewTextHandler(h.t.Output(), &slog.HandlerOptions{Level: level})),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	e.pause = time.Millisecond
	return e, h.run(e)
}

// run follows an engine and runs it; the function ends that.
func (h *house) run(e *Engine) func() {
	h.t.Helper()
	feed := engine.NewFeed()
	e.Watch(feed)
	go h.follow(feed)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	<-e.Ready()
	close := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Error(err)
		}
		feed.Close()
	})
	h.t.Cleanup(close)
	return close
}

// follow takes down what a feed says of replicas.
func (h *house) follow(feed *engine.Feed) {
	for {
		list, err := feed.Next(context.Background())
		if err != nil {
			return
		}
		h.mu.Lock()
		for _, ch := range list {
			if ch.Replica != nil && !ch.Gone {
				h.changes[ch.Replica.Name] = append(h.changes[ch.Replica.Name], ch.Replica.State)
			}
		}
		h.mu.Unlock()
	}
}

func replicaOf(task string, index int, env map[string]string, command ...string) engine.Replica {
	name := engine.NameOf(task, "worker", index, 1)
	r := engine.Replica{
		Name: name, TaskID: task, Task: "t", Role: "worker", Index: index, Attempt: 1,
		Command: command, Virtual: true, StopGrace: api.Duration(time.Second),
	}
	for k, v := range env {
		r.Env = append(r.Env, api.EnvVar{Name: k, Value: v})
	}
	return r
}

// taskName is unique over test runs: cgroups are the machine's.
func taskName() string { return fmt.Sprintf("task-test-%d-%d", os.Getpid(), time.Now().UnixNano()) }

var sleeper = []string{"/bin/sleep", "1000"}

func (h *house) start(e *Engine, r engine.Replica) {
	h.t.Helper()
	if err := e.Start(context.Background(), r); err != nil {
		h.t.Fatal(err)
	}
}

func observed(e *Engine, r engine.Replica) engine.Observation {
	for _, o := range e.Replicas(r.TaskID) {
		if o.Name == r.Name {
			return o
		}
	}
	return engine.Observation{}
}

func (h *house) await(e *Engine, r engine.Replica, state engine.State) engine.Observation {
	h.t.Helper()
	var o engine.Observation
	eventually(h.t, fmt.Sprintf("%s is %s", r.Name, state), func() bool {
		e.Poke(r.Name)
		o = observed(e, r)
		return engine.Order(o.State) >= engine.Order(state)
	})
	if o.State != state {
		h.t.Fatalf("%s is %s; want %s", r.Name, o.State, state)
	}
	return o
}

func (h *house) launcher(r engine.Replica) record.Process {
	h.t.Helper()
	var p record.Process
	if ok, err := record.Read(filepath.Join(h.dir, "replicas", string(r.Name)), record.FileLauncher, &p); !ok || err != nil {
		h.t.Fatal(ok, err)
	}
	return p
}

func (h *house) child(r engine.Replica) record.Process {
	h.t.Helper()
	var s record.Start
	if ok, err := record.Read(filepath.Join(h.dir, "replicas", string(r.Name)), record.FileStart, &s); !ok || err != nil {
		h.t.Fatal(ok, err)
	}
	return s.Process
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func TestLifeToTheEnd(t *testing.T) {
	h := newHouse(t)
	e, _ := h.open()
	r := replicaOf(taskName(), 0, map[string]string{"GATE": "1"}, "/bin/true")
	h.start(e, r)
	h.start(e, r) // a second time changes nothing
	told := func(s engine.State) func() bool {
		return func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return slices.Contains(h.changes[r.Name], s)
		}
	}
	eventually(t, "the feed has said that it is there", told(engine.StateCreated)) // a feed tells the newest only
	if err := os.WriteFile(filepath.Join(e.dirs.of(r.Name), "gate"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := h.await(e, r, engine.StateDone)
	if o.Exit == nil || o.Exit.Reason != engine.ReasonSucceeded || o.Exit.Code != 0 || o.Started.IsZero() {
		t.Errorf("observed %+v", o)
	}
	h.start(e, r) // nor does one after the end
	dir := e.dirs.of(r.Name)
	if n := countLines(dir, "ran"); n != 1 {
		t.Errorf("ran %d times", n)
	}
	token, _ := os.ReadFile(filepath.Join(dir, "token"))
	if got, want := string(token), "token of "+string(r.Name)+"\n"; got != want {
		t.Errorf("token %q; want %q", got, want)
	}
	h.checkBorn(dir, r)
	eventually(t, "the feed has said so", told(engine.StateDone))
	h.mu.Lock()
	states := slices.Compact(slices.Clone(h.changes[r.Name]))
	h.mu.Unlock()
	if len(states) < 2 || states[0] != engine.StateCreated || states[len(states)-1] != engine.StateDone ||
		!slices.IsSortedFunc(states, func(a, b engine.State) int { return engine.Order(a) - engine.Order(b) }) {
		t.Errorf("told of %v", states)
	}
	h.checkRemove(e, r)
}

func (h *house) checkBorn(dir string, r engine.Replica) {
	h.t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "born"))
	if err != nil {
		h.t.Fatal(err)
	}
	born := string(data)
	if !strings.Contains(born, "cwd=/\nsession=true\n") {
		h.t.Errorf("born as %s", born)
	}
	if cgroup.Detect().Version > 0 && !strings.Contains(born, "/fermi/"+string(r.Name)+"\n") {
		h.t.Errorf("in no group of its own:\n%s", born)
	}
	for line := range strings.Lines(born) {
		files, ok := strings.CutPrefix(strings.TrimSpace(line), "files=")
		if !ok {
			continue
		}
		for to := range strings.SplitSeq(files, ",") {
			// The runtime's own, stdio, and the token's pipe.
			if !strings.HasPrefix(to, "anon_inode:") && !strings.HasPrefix(to, "pipe:") && to != os.DevNull &&
				filepath.Base(to) != record.FileOwnLog && !strings.HasPrefix(to, "/sys/fs/cgroup/") {
				h.t.Errorf("inherited %s", to)
			}
		}
	}
}

func (h *house) checkRemove(e *Engine, r engine.Replica) {
	h.t.Helper()
	g, err := cgroup.Load(e.dirs.of(r.Name))
	if err != nil {
		h.t.Fatal(err)
	}
	for range 2 { // unknown is fine
		if err := e.Remove(context.Background(), r.Name); err != nil {
			h.t.Fatal(err)
		}
	}
	if g != nil {
		for _, p := range g.Paths {
			if _, err := os.Stat(p); err == nil {
				h.t.Errorf("%s is still there", p)
			}
		}
	}
	if got := observed(e, r); got.Name != "" {
		h.t.Errorf("still listed: %v", got)
	}
	eventually(h.t, "the folder is empty", func() bool {
		left, _ := filepath.Glob(filepath.Join(h.dir, "replicas", "*"+string(r.Name)+"*"))
		return len(left) == 0
	})
}

func TestManyAtOnce(t *testing.T) {
	h := newHouse(t)
	e, _ := h.open()
	task := taskName()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() { h.start(e, replicaOf(task, i, nil, "/bin/true")) })
	}
	wg.Wait()
	for i := range 20 {
		h.await(e, replicaOf(task, i, nil), engine.StateDone)
	}
	if got := len(e.Replicas(task)); got != 20 {
		t.Errorf("%d replicas of the task", got)
	}
	if got := len(e.Replicas("")); got != 20 {
		t.Errorf("%d replicas in all", got)
	}
	if got := e.Replicas("task-other"); len(got) != 0 {
		t.Errorf("another task has %v", got)
	}
}

func TestTwoEnginesOneLauncher(t *testing.T) {
	h := newHouse(t)
	a, _ := h.open()
	b, _ := h.open()
	task := taskName()
	var replicas []engine.Replica
	var wg sync.WaitGroup
	for i := range 8 {
		r := replicaOf(task, i, nil, sleeper...)
		replicas = append(replicas, r)
		wg.Go(func() { h.start(a, r) })
		wg.Go(func() { h.start(b, r) })
	}
	wg.Wait()
	for _, r := range replicas {
		h.await(a, r, engine.StateRunning)
		h.await(b, r, engine.StateRunning)
		if err := b.Stop(context.Background(), r.Name, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range replicas {
		first, second := h.await(a, r, engine.StateDone), h.await(b, r, engine.StateDone)
		if d := cmp.Diff(first, second); d != "" {
			t.Error(d)
		}
		if first.Exit.Reason != engine.ReasonStopped {
			t.Errorf("exit %+v", first.Exit)
		}
		dir := a.dirs.of(r.Name)
		if locked, ran := countLines(dir, "locked"), countLines(dir, "ran"); locked != 1 || ran != 1 {
			t.Errorf("%s: %d launchers took the lock, the command ran %d times", r.Name, locked, ran)
		}
		if err := b.Remove(context.Background(), r.Name); err != nil {
			t.Error(err)
		}
		// The other one finds it gone.
		if err := a.Remove(context.Background(), r.Name); err != nil {
			t.Error(err)
		}
	}
}

func TestAdoptTheLiving(t *testing.T) {
	h := newHouse(t)
	e, end := h.open()
	task := taskName()
	// One ends while nobody looks, one goes on living.
	brief := replicaOf(task, 0, nil, "/bin/sh", "-c", "until [ -e over ]; do sleep 0.01; done")
	long := replicaOf(task, 1, nil, sleeper...)
	for _, r := range []engine.Replica{brief, long} {
		h.start(e, r)
		h.await(e, r, engine.StateRunning)
	}
	launcher, child := h.launcher(long), h.child(long)
	end()
	if err := e.Start(context.Background(), brief); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Start after the end: %v", err)
	}
	dir := e.dirs.of(brief.Name)
	if err := os.WriteFile(filepath.Join(dir, "over"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it ended unseen", func() bool { return record.Exists(dir, record.FileDone) })

	e, _ = h.open()
	if o := observed(e, brief); o.State != engine.StateDone || o.Exit.Reason != engine.ReasonSucceeded {
		t.Errorf("missed the exit: %+v", o)
	}
	if o := observed(e, long); o.State != engine.StateRunning {
		t.Errorf("observed %+v", o)
	}
	if !launcher.Alive() || !child.Alive() || h.launcher(long) != launcher {
		t.Error("a running process was touched")
	}
	if err := e.Stop(context.Background(), long.Name, time.Second); err != nil {
		t.Fatal(err)
	}
	if o := h.await(e, long, engine.StateDone); o.Exit.Reason != engine.ReasonStopped {
		t.Errorf("exit %+v", o.Exit)
	}
	for _, r := range []engine.Replica{brief, long} {
		h.checkRemove(e, r)
	}
}

// TestTenantOfAReplica: who the process will be, by who owns it and what this machine can do.
func TestTenantOfAReplica(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		uid  int
		want record.Tenant
	}{
		{Config{Hide: []string{"/d"}}, 0, record.Tenant{}},
		{Config{Hide: []string{"/d"}}, 5000, record.Tenant{UID: 5000, Hide: []string{"/d"}}},
		{Config{Hide: []string{"/d"}, Standing: Standing{Owner: "ann"}}, 0, record.Tenant{}},
		{Config{Hide: []string{"/d"}, Standing: Standing{Owner: "admin"}}, 0, record.Tenant{Refused: true}},
	} {
		e := &Engine{cfg: c.cfg}
		if got := e.cfg.tenant(engine.Replica{Owner: "ann", Tenancy: engine.Tenancy{UID: c.uid}}); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// TestLaunchersTellTheirVersion: what its record says is observed; one without says nothing.
func TestLaunchersTellTheirVersion(t *testing.T) {
	for _, version := range []string{"", "v1.2"} {
		dir := t.TempDir()
		self := record.Self()
		self.Version = version
		for file, content := range map[string]any{record.FileReplica: engine.Replica{Name: "x"}, record.FileLauncher: self} {
			if err := record.Write(dir, file, content); err != nil {
				t.Fatal(err)
			}
		}
		s, err := look(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		if o := s.observation(&replica{node: "n"}, ""); !o.Launched || o.Version != version || o.Node != "n" {
			t.Errorf("%+v", o)
		}
	}
}
