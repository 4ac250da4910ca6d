package faults

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/test/harness"
)

// asked is how many faults there shall be; the suite runs only by its name, since it takes minutes.
func asked(t *testing.T) int {
	t.Helper()
	n := harness.EnvInt("FERMI_FAULTS", 0)
	if n == 0 {
		t.Skip("make e2e-faults runs it")
	}
	return n
}

// kind is one way to fail, of PyTorch's ranks or, where no card is here to fail, of a shell that prints what they would.
type kind struct {
	name   string // the cause that must be named
	action string
	how    string // the function of scripts/patient.py
	fault  string // or what the platform is asked to do
	prints string // or the shell's last words
	start  bool   // before the ranks meet
	every  bool   // in every generation: the task must end
	anyone bool   // nobody in particular is guilty
	limits bool   // on a node that limits memory
	// replica is the one that is lost as a whole, filled in when it is.
	replica string
}

func python(exception string) string {
	return `printf 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n` + exception + `\n' >&2; exit 1`
}

var kinds = []kind{
	{name: "killed", how: "killed", action: "restart"},
	{name: "killed", fault: "kill", action: "restart"},
	{name: "crashed", how: "crashed", action: "restart"},
	{name: "aborted", how: "aborted", action: "restart"},
	{name: "ended-by-signal", how: "terminated", action: "restart"},
	{name: "exit-code", how: "code", action: "restart"},
	{name: "exit-code", how: "mixed", action: "restart"},
	{name: "left-early", how: "left", action: "restart"},
	{name: "python-error", how: "shapes", action: "restart"},
	{name: "python-error", how: "shapes", action: "restart", start: true},
	{name: "python-error", how: "shapes", action: "stop", every: true},
	{name: "import", how: "module", action: "restart", start: true},
	{name: "import", how: "module", action: "stop", start: true, every: true},
	{name: "syntax", how: "syntax", action: "restart"},
	{name: "file-missing", how: "file", action: "restart"},
	{name: "assertion", how: "assertion", action: "restart"},
	{name: "not-finite", how: "not_finite", action: "restart"},
	{name: "host-memory", how: "host_memory", action: "restart"},
	{name: "memory-limit", how: "eats", action: "restart", limits: true},
	{name: "address-in-use", how: "address", action: "restart"},
	{name: "disk-full", how: "disk_full", action: "swap"},
	{name: "process-stopped", how: "stopped", action: "restart"},
	{name: "process-stopped", fault: "stop", action: "restart"},
	{name: "hang", how: "asleep", action: "restart"},
	{name: "hang", how: "locked", action: "restart"},
	{name: "peer-lost", fault: "net", action: "restart", anyone: true},
	{name: "launcher-killed", fault: "node", action: "restart"},
	{name: "device-memory", prints: python("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"), action: "restart"},
	{name: "device-assert", prints: python("RuntimeError: CUDA error: device-side assert triggered"), action: "restart"},
	{name: "device-lost", prints: `echo 'NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.' >&2; exit 1`, action: "swap"},
	{name: "device-memory-error", prints: python("RuntimeError: CUDA error: uncorrectable ECC error encountered"), action: "swap"},
}

// String is its row's name.
func (k kind) String() string {
	made := "PyTorch " + k.how
	switch {
	case k.prints != "":
		made = "printed"
	case k.fault != "":
		made = "PyTorch fault " + k.fault
	}
	if k.start {
		made += " at the start"
	}
	if k.every {
		made += " each time"
	}
	return fmt.Sprintf("%-20s %-8s %s", k.name, k.action, made)
}

// world is a server.
type world struct {
	t  *testing.T
	c  *harness.Cluster
	cl *client.Client
}

func newWorld(t *testing.T, args ...string) *world {
	t.Helper()
	c, cl := harness.Up(t, args...)
	return &world{t, c, cl}
}

func (w *world) task(name string) *api.TrainingTask {
	w.t.Helper()
	return harness.Task(w.t, w.cl, name)
}

// until waits for a condition of a task.
func (w *world) until(name, what string, ok func(*api.TrainingTask) bool) *api.TrainingTask {
	w.t.Helper()
	for deadline := time.Now().Add(harness.Patience); ; time.Sleep(20 * time.Millisecond) {
		t := w.task(name)
		if ok(t) {
			return t
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: never %s: %s %s %+v", name, what, t.Status.Phase, t.Status.Message, t.Status.Failure)
		}
	}
}

func (w *world) submit(name string, restarts int, command ...string) {
	w.t.Helper()
	if _, err := w.cl.Submit(w.t.Context(), &api.TrainingTask{
		Meta: api.Meta{Name: name},
		Spec: api.TrainingTaskSpec{
			Restart: &api.RestartPolicy{MaxRestarts: restarts},
			Roles: []api.Role{{
				Name: "worker", Replicas: 2, Ranks: 2, Resources: api.Resources{CPU: 100, Memory: 1 << 28}, Command: command,
			}},
		},
	}, false); err != nil {
		w.t.Fatal(err)
	}
}

// script is a training in shell: in the first generation one rank fails with its words, and those beside it
// on its launcher end as its victims do, one of them before it.
func script(k kind, rank int) string {
	victim := rank ^ 1 // on the same launcher
	return fmt.Sprintf(`case $FERMI_GENERATION.$RANK in
	1.%d) until [ -e $FERMI_SHM/lost ]; do sleep 0.01; done; %s;;
	1.%d) echo 'RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:1' >&2; touch $FERMI_SHM/lost; exit 1;;
	1.*) exec sleep 1000;;
	*) sleep 1;;
	esac`, rank, k.prints, victim)
}

// printed runs the shell and says what it was taken for.
func (w *world) printed(name string, k kind, rank int) verdict {
	w.t.Helper()
	w.submit(name, 5, "sh", "-c", script(k, rank))
	return judged(k, rank, w.until(name, "ended", func(t *api.TrainingTask) bool { return t.Status.Phase.Finished() }))
}

// verdict is what a fault was taken for.
type verdict struct {
	got   string
	right bool
}

// judged compares what is said of a task that went on, or ended, with the truth.
func judged(k kind, rank int, t *api.TrainingTask) verdict {
	f := t.Status.Interruptions.Newest()
	if f == nil {
		return verdict{got: "nothing"}
	}
	v := verdict{got: f.Cause + " " + f.Action, right: f.Cause == k.name && f.Action == k.action}
	switch {
	case k.anyone, f.Rank != nil && *f.Rank == rank, f.Rank == nil && k.replica != "" && f.Replica == k.replica:
	default:
		v.got += " of another: " + f.Replica
		if f.Rank != nil {
			v.got += fmt.Sprintf(", rank %d", *f.Rank)
		}
		v.right = false
	}
	if ended := t.Status.Phase == api.PhaseFailed || t.Status.Phase == api.PhaseStopped; ended != k.every {
		v.got += fmt.Sprintf(", and is %s", t.Status.Phase)
		v.right = false
	}
	return v
}

// steps waits until a training has told its launchers of a few steps.
func (w *world) steps(name string) {
	w.t.Helper()
	w.until(name, "has made steps", func(t *api.TrainingTask) bool {
		return w.step(name) >= 10 || t.Status.Phase.Finished()
	})
}

// step is what rank 0 has reported last; 0 where nobody knows.
func (w *world) step(name string) int {
	p, err := w.cl.Profile(w.t.Context(), "default", name, 0)
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(p.Text, " step ")
	digits, _, _ := strings.Cut(after, "\n")
	n, _ := strconv.Atoi(digits)
	return n
}

// ward is where patients are hurt, and who must not be.
type ward struct {
	open    *world // the demo, which limits nobody
	limited *world // nil until it is needed
	now     *patient
	healthy *patient
	begun   int // tasks
}

// hurt runs one fault. A patient is hurt time and again; a new one comes where the old one has ended, a fault at the
// start is due, or another hang: after one, in which nobody can be sure, the next is waited for longer.
func (d *ward) hurt(k kind, rank int) verdict {
	d.begun++
	name := fmt.Sprintf("patient-%d", d.begun)
	switch {
	case k.prints != "":
		return d.open.printed(name, k, rank)
	case k.limits:
		if d.limited == nil {
			d.limited = newWorld(d.open.t)
		}
		p := d.limited.patient(name)
		p.begin()
		defer p.end()
		return p.hurt(k, rank)
	}
	hang := k.name == "hang"
	if d.now != nil && (k.start || hang && d.now.silent || d.open.task(d.now.name).Status.Phase.Finished()) {
		d.now.end()
		d.now = nil
	}
	if d.now == nil {
		d.now = d.open.patient(name)
		if !k.start {
			d.now.begin()
		}
	}
	d.now.silent = d.now.silent || hang || k.name == "process-stopped"
	return d.now.hurt(k, rank)
}

// well checks that nothing has happened to the task beside it.
func (d *ward) well(after kind) {
	d.open.t.Helper()
	st := d.healthy.w.task(d.healthy.name).Status
	if st.Phase != api.PhaseRunning || st.Generation != 1 || st.Attempt != 1 || st.Interruptions != nil {
		d.open.t.Fatalf("after %v the healthy task is %s, attempt %d, generation %d: %+v", after, st.Phase, st.Attempt, st.Generation, st.Failure)
	}
}

// possible are the kinds that this machine can have.
func possible(t *testing.T) []kind {
	t.Helper()
	s := cgroup.Detect()
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool {
		if k.limits && !s.Limited("memory") {
			t.Logf("no %s: no memory limits here: %s", k.name, s.Reason.EN)
			return true
		}
		return false
	})
}

func TestFaults(t *testing.T) {
	n := asked(t)
	seed := uint64(harness.EnvInt("FERMI_FAULTS_SEED", int(time.Now().UnixNano()&0xffff)))
	t.Logf("%d faults, FERMI_FAULTS_SEED=%d repeats them", n, seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	list := possible(t)
	d := &ward{open: newWorld(t, "--demo")}
	d.healthy = d.open.patient("healthy")
	d.healthy.begin()
	d.healthy.trains(time.Time{})
	var o outcome
	for i := range n {
		if i%len(list) == 0 {
			rnd.Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
		}
		k, rank := list[i%len(list)], rnd.IntN(4)
		steps, begun := d.healthy.made(time.Time{}), time.Now()
		v := d.hurt(k, rank)
		t.Logf("%3d %v of rank %d → %s, %.1f s", i, k, rank, v.got, time.Since(begun).Seconds())
		d.well(k)
		harness.Eventually(t, "the healthy task goes on", func() bool { return d.healthy.made(time.Time{}) > steps })
		o.add(k, v)
	}
	if d.now != nil {
		d.now.end()
	}
	t.Logf("the healthy training beside them made %d steps without a restart", d.healthy.made(time.Time{}))
	d.healthy.end()
	o.judge(t, seed)
}

// outcome counts.
type outcome struct {
	right, all map[string]int // by kind
	wrong      []string
	real       map[string]bool // causes
	n, ok, own int             // faults, right ones, those of PyTorch
}

func (o *outcome) add(k kind, v verdict) {
	if o.all == nil {
		o.right, o.all, o.real = map[string]int{}, map[string]int{}, map[string]bool{}
	}
	o.n++
	o.all[k.String()]++
	if v.right {
		o.ok++
		o.right[k.String()]++
	} else {
		o.wrong = append(o.wrong, fmt.Sprintf("%v → %s", k, v.got))
	}
	if k.prints == "" {
		o.own++
		o.real[k.name] = true
	}
}

func (o *outcome) judge(t *testing.T, seed uint64) {
	t.Helper()
	for _, row := range slices.Sorted(maps.Keys(o.all)) {
		t.Logf("%3d of %3d  %s", o.right[row], o.all[row], row)
	}
	t.Logf("%d of %d right. %d were PyTorch's own, of %d causes; %d were printed. FERMI_FAULTS_SEED=%d", o.ok, o.n, o.own, len(o.real), o.n-o.own, seed)
	if o.ok*100 < o.n*95 {
		t.Errorf("wrong:\n%s", strings.Join(o.wrong, "\n"))
	}
	if o.n >= len(kinds) && (len(o.real) < 12 || o.own*3 < o.n*2) {
		t.Errorf("only %d of %d faults, of %d causes, were PyTorch's", o.own, o.n, len(o.real))
	}
}
