package silence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/test/harness"
)

// nodes of two zones near each other, with one device each.
const nodes = `zones:
- {name: east, region: r, nodes: [{count: 5, cpu: 8, memory: 64Gi, devices: {count: 1, type: A100}}]}
- {name: west, region: r, nodes: [{count: 5, cpu: 8, memory: 64Gi, devices: {count: 1, type: A100}}]}
`

// world is one server on ten virtual nodes.
type world struct {
	t    *testing.T
	c    *harness.Cluster
	cl   *client.Client
	wire *wire // of a far world; nil: launchers are reached in their folders
}

// newWorld is one whose launchers have their orders in their folders.
func newWorld(t *testing.T) *world { return start(t, false) }

// farWorld is one whose launchers are reached over the link alone, as on far machines; they can be cut off.
func farWorld(t *testing.T) *world { return start(t, true) }

func start(t *testing.T, far bool) *world {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("replicas have networks of their own, and launchers can be frozen, as root")
	}
	file := filepath.Join(t.TempDir(), "zones.yaml")
	if err := os.WriteFile(file, []byte(nodes), 0o600); err != nil {
		t.Fatal(err)
	}
	bin, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	c, err := harness.New(bin, "up", "--zones", file, "--quantum", "1s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.LogTail())
		}
		c.Cleanup()
	})
	if far {
		c.Wrap = []string{"env", "FERMI_LINK=far"}
	}
	harness.Ready(t, c)
	cl, err := c.Client()
	if err == nil {
		err = harness.Share(t.Context(), cl)
	}
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, c: c, cl: cl}
	if far {
		w.wire = stretch(t, c)
	}
	w.until("all nodes are ready", func() bool {
		page, err := cl.List(t.Context(), api.KindNode, client.ListOptions{})
		ready := 0
		for _, o := range page.Items {
			if o.(*api.Node).Status.Ready {
				ready++
			}
		}
		return err == nil && ready == 10
	})
	return w
}

// token is the administrator's.
func (w *world) token() string {
	w.t.Helper()
	raw, err := os.ReadFile(filepath.Join(w.c.Dir, "admin.token"))
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}

// in is the same world in a test of its own.
func (w *world) in(t *testing.T) *world {
	one := *w
	one.t = t
	return &one
}

// often is how often is looked: several worlds stand side by side on one machine, and a look is a request.
const often = 50 * time.Millisecond

// until waits for a condition.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(harness.Patience); !ok(); time.Sleep(often) {
		if time.Now().After(deadline) {
			w.t.Fatalf("never: %s", what)
		}
	}
}

// training is a task under drill.
type training struct {
	*world
	name, id string
}

// train starts a training of four replicas with one rank each, and waits until it makes steps.
func (w *world) train(name string, shape func(*api.TrainingTask)) *training {
	w.t.Helper()
	task := &api.TrainingTask{
		Meta: api.Meta{Name: name},
		Spec: api.TrainingTaskSpec{
			Restart: &api.RestartPolicy{MaxRestarts: 20},
			Roles: []api.Role{{
				Name: "worker", Replicas: 4, Resources: api.Resources{CPU: 100, Memory: 1 << 28, Accelerators: api.Accelerators{Count: 1}},
				Command: []string{"fermi", "sample", "train", "--steps", "1000000", "--log-every", "1", "--hidden", "8", "--shards", "4", "--step-time", "50ms"},
			}},
		},
	}
	if shape != nil {
		shape(task)
	}
	if _, err := w.cl.Submit(w.t.Context(), task, false); err != nil {
		w.t.Fatal(err)
	}
	tr := &training{w, name, harness.Task(w.t, w.cl, name).Meta.ID}
	tr.steps(1)
	return tr
}

func (tr *training) status() api.TrainingTaskStatus {
	tr.t.Helper()
	s := harness.Task(tr.t, tr.cl, tr.name).Status
	if s.Phase.Finished() {
		tr.tell()
		tr.t.Fatalf("%s ended %s: %s %+v", tr.name, s.Phase, s.Message, s.Failure)
	}
	return s
}

// steps waits until a generation at or after this one trains beyond where it began.
func (tr *training) steps(generation int) {
	tr.t.Helper()
	from := -1
	tr.until(fmt.Sprintf("%s steps in generation %d", tr.name, generation), func() bool {
		s := tr.status()
		if s.Generation < generation || s.Phase != api.PhaseRunning {
			return false
		}
		if from < 0 {
			from = tr.lines()
		}
		return tr.lines() > from+3
	})
}

// lines is how many steps were written down by whoever was rank 0.
func (tr *training) lines() (n int) {
	files, _ := filepath.Glob(filepath.Join(tr.c.Dir, "engine", "replicas", tr.id+"-worker-*", "output", "metrics.jsonl"))
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		n += bytes.Count(raw, []byte("\n"))
	}
	return n
}

// replicas are those that take part now.
func (tr *training) replicas() (out []client.Replica) {
	tr.t.Helper()
	all, err := tr.cl.Replicas(tr.t.Context(), "default", tr.name)
	if err != nil {
		tr.t.Fatal(err)
	}
	for _, r := range all {
		if r.State == string(engine.StateRunning) && r.Spare == "" {
			out = append(out, r)
		}
	}
	return out
}

// tell prints what happened to the task.
func (tr *training) tell() {
	all, err := tr.cl.Events(tr.t.Context(), client.EventOptions{Project: "default", Kind: api.KindTrainingTask, Name: tr.name})
	if err != nil {
		tr.t.Log(err)
	}
	slices.Reverse(all)
	for _, e := range all {
		tr.t.Log(e.Time.Format("15:04:05.000"), e.Reason, e.Message.EN)
	}
}

// event is when something was first told of the task after a time; zero: not yet.
func (tr *training) event(after time.Time, reasons ...string) (first time.Time) {
	tr.t.Helper()
	all, err := tr.cl.Events(tr.t.Context(), client.EventOptions{Project: "default", Kind: api.KindTrainingTask, Name: tr.name})
	if err != nil {
		tr.t.Fatal(err)
	}
	for _, e := range all {
		if slices.Contains(reasons, e.Reason) && e.Time.After(after) && (first.IsZero() || e.Time.Before(first)) {
			first = e.Time
		}
	}
	return first
}

// launcher is the process of a replica's launcher.
func (w *world) launcher(name string) int {
	var self struct{ PID int }
	raw, err := os.ReadFile(filepath.Join(w.c.Dir, "engine", "replicas", name, "launcher.json"))
	if err == nil {
		err = json.Unmarshal(raw, &self)
	}
	if err != nil {
		return 0
	}
	return self.PID
}

// family is a process and all that it started.
func family(pid int) []int {
	children := map[int][]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		_, rest, ok := strings.Cut(string(raw), ") ")
		if f := strings.Fields(rest); ok && len(f) > 1 {
			parent, _ := strconv.Atoi(f[1])
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			children[parent] = append(children[parent], child)
		}
	}
	out := []int{pid}
	for i := 0; i < len(out); i++ {
		out = append(out, children[out[i]]...)
	}
	return out
}

// freeze stops the launcher of a replica and everything below it, as a machine that hangs does.
func (w *world) freeze(name string) {
	w.t.Helper()
	pid := w.launcher(name)
	if pid <= 1 {
		w.t.Fatalf("no launcher of %s", name)
	}
	for range 3 { // what was started while we looked
		for _, p := range family(pid) {
			_ = syscall.Kill(p, syscall.SIGSTOP)
		}
	}
}

// thaw lets it go on.
func (w *world) thaw(name string) {
	if pid := w.launcher(name); pid > 1 {
		for _, p := range family(pid) {
			_ = syscall.Kill(p, syscall.SIGCONT)
		}
	}
}

// holders watches until it is told to stop that no device has two replicas with processes, frozen ones included.
func (w *world) holders() (stop func()) {
	ctx, end := make(chan struct{}), sync.WaitGroup{}
	end.Go(func() {
		for {
			select {
			case <-ctx:
				return
			case <-time.After(often):
			}
			w.look()
		}
	})
	return func() {
		close(ctx)
		end.Wait()
	}
}

// spec is what a replica is.
func (w *world) spec(name string) (r engine.Replica) {
	w.t.Helper()
	raw, err := os.ReadFile(filepath.Join(w.c.Dir, "engine", "replicas", name, "replica.json"))
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// look finds who has processes on which node: all devices are one a node.
func (w *world) look() {
	folders, _ := filepath.Glob(filepath.Join(w.c.Dir, "engine", "replicas", "*", "start.json"))
	on := map[string]string{}
	for _, file := range folders {
		dir := filepath.Dir(file)
		var spec engine.Replica
		raw, err := os.ReadFile(filepath.Join(dir, "replica.json"))
		if err != nil || json.Unmarshal(raw, &spec) != nil || spec.Inside != "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "exit.json")); err == nil {
			continue
		}
		if other := on[spec.Node]; other != "" && alive(w.launcher(string(spec.Name))) && alive(w.launcher(other)) {
			w.t.Errorf("node %s has two holders: %s and %s", spec.Node, other, spec.Name)
		}
		on[spec.Node] = string(spec.Name)
	}
}

func alive(pid int) bool { return pid > 1 && syscall.Kill(pid, 0) == nil }
