package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
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

// kind is one way to fail: what the guilty rank of the first generation does. The others end as ranks do
// that lost a peer, some of them before the guilty one.
type kind struct {
	name   string // the cause that must be named
	guilty string // shell, run by the guilty rank; "": the platform is asked for fault
	fault  string
	action string
	every  bool // it fails in every generation: the task must end
}

const traceback = `printf 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n%s\n' "$1" >&2; exit 1`

func python(exception string) string { return `set -- "` + exception + `"; ` + traceback }

var kinds = []kind{
	{name: "killed", guilty: `kill -KILL $$`, action: "restart"},
	{name: "crashed", guilty: `kill -SEGV $$`, action: "restart"},
	{name: "aborted", guilty: `echo 'terminate called' >&2; kill -ABRT $$`, action: "restart"},
	{name: "ended-by-signal", guilty: `kill -TERM $$`, action: "restart"},
	{name: "exit-code", guilty: `exit 7`, action: "restart"},
	{name: "python-error", guilty: python("ValueError: bad shape"), action: "restart"},
	{name: "python-error", guilty: python("ValueError: bad shape"), action: "stop", every: true},
	{name: "import", guilty: python("ModuleNotFoundError: No module named 'x'"), action: "stop", every: true},
	{name: "syntax", guilty: `printf '  File "train.py", line 1\n    def f(:\nSyntaxError: invalid syntax\n' >&2; exit 1`, action: "restart"},
	{name: "device-memory", guilty: python("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"), action: "restart"},
	{name: "host-memory", guilty: python("MemoryError"), action: "restart"},
	{name: "device-assert", guilty: python("RuntimeError: CUDA error: device-side assert triggered"), action: "restart"},
	{name: "device-lost", guilty: `echo 'NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.' >&2; exit 1`, action: "swap"},
	{name: "device-memory-error", guilty: python("RuntimeError: CUDA error: uncorrectable ECC error encountered"), action: "swap"},
	{name: "disk-full", guilty: python("OSError: [Errno 28] No space left on device"), action: "swap"},
	{name: "file-missing", guilty: python("FileNotFoundError: [Errno 2] No such file or directory: 'x'"), action: "restart"},
	{name: "assertion", guilty: python("AssertionError: bad batch"), action: "restart"},
	{name: "not-finite", guilty: python("FloatingPointError: loss is nan at step 4"), action: "restart"},
	{name: "address-in-use", guilty: python("OSError: [Errno 98] Address already in use"), action: "restart"},
	{name: "killed", fault: "kill", action: "restart"},
	{name: "process-stopped", fault: "stop", action: "restart"},
	{name: "launcher-lost", fault: "node", action: "restart"},
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
	for deadline := time.Now().Add(harness.Patience); ; time.Sleep(10 * time.Millisecond) {
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

// script is a training in shell: in the first generation (or in each) one rank fails and those beside it
// on its launcher end as its victims do, one of them at once.
func script(k kind, rank int) string {
	when := "$FERMI_GENERATION.$RANK"
	if k.every {
		when = "1.$RANK"
	}
	victim := rank ^ 1 // on the same launcher
	return fmt.Sprintf(`case %s in
	1.%d) until [ -e $FERMI_SHM/lost ]; do sleep 0.01; done; %s;;
	1.%d) echo 'RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:1' >&2; touch $FERMI_SHM/lost; exit 1;;
	1.*) exec sleep 1000;;
	esac`, when, rank, k.guilty, victim)
}

// hurt runs one fault and says what it was taken for.
func (w *world) hurt(name string, k kind, rank int) (got string, right bool) {
	w.t.Helper()
	if k.fault != "" {
		w.submit(name, 5, "fermi", "sample", "train", "--steps", "400", "--step-time", "20ms")
		w.until(name, "runs", func(t *api.TrainingTask) bool { return t.Status.Phase == api.PhaseRunning || t.Status.Phase.Finished() })
		w.steps(name)
		if _, err := w.cl.Fault(w.t.Context(), "default", name, rank, k.fault); err != nil {
			w.t.Fatal(name, err)
		}
	} else {
		w.submit(name, 5, "sh", "-c", script(k, rank))
	}
	t := w.until(name, "failed", func(t *api.TrainingTask) bool { return t.Status.Failure != nil || t.Status.Phase.Finished() })
	f := t.Status.Failure
	end := w.until(name, "ended", func(t *api.TrainingTask) bool { return t.Status.Phase.Finished() }).Status
	if k.every { // it is the last one that counts
		f = end.Failure
	}
	if f == nil {
		return "nothing", false
	}
	got = f.Cause + " " + f.Action
	guilty := f.Rank != nil && *f.Rank == rank || k.fault == "node" && f.Rank == nil
	if !guilty {
		got += " of another"
	}
	healthy := end.Phase == api.PhaseCompleted
	if healthy == k.every {
		w.t.Errorf("%s: ended %s: %s", name, end.Phase, end.Message)
	}
	return got, guilty && f.Cause == k.name && f.Action == k.action
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

func TestFaults(t *testing.T) {
	n := asked(t)
	seed := uint64(harness.EnvInt("FERMI_FAULTS_SEED", int(time.Now().UnixNano()&0xffff)))
	t.Logf("%d faults, FERMI_FAULTS_SEED=%d repeats them", n, seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, "--demo")
	order := rnd.Perm(len(kinds))
	table := map[string]int{}
	used, right := map[string]bool{}, 0
	for i := range n {
		k := kinds[order[i%len(kinds)]]
		got, ok := w.hurt(fmt.Sprintf("fault-%d", i), k, rnd.IntN(4))
		if ok {
			right++
		}
		used[k.name] = true
		table[fmt.Sprintf("%-20s %-8s → %s", k.name, k.action, got)]++
	}
	var rows []string
	for row, count := range table {
		rows = append(rows, fmt.Sprintf("%4d  %s", count, row))
	}
	slices.Sort(rows)
	t.Logf("\n%s", strings.Join(rows, "\n"))
	t.Logf("%d of %d right, %d kinds", right, n, len(used))
	if right*100 < n*95 {
		t.Errorf("only %d of %d right", right, n)
	}
	if n >= 30 && len(used) < 12 {
		t.Errorf("only %d kinds", len(used))
	}
}
