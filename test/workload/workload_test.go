package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
	"github.com/fermi-cluster/fermi/test/harness"
	"github.com/fermi-cluster/fermi/test/workload/probe"
)

func TestMain(m *testing.M) {
	kinds.Register(probe.Row) // for the client, which has the same table
	os.Exit(m.Run())
}

// world is a data folder that the program with the further kind serves.
type world struct {
	*harness.Cluster
	t  *testing.T
	cl *client.Client
}

func newWorld(t *testing.T, args ...string) *world {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "fermi")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-trimpath", "-o", bin, "./program").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c, err := harness.New(bin, "up", args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.LogTail())
		}
		c.Cleanup()
	})
	w := &world{Cluster: c, t: t}
	w.start()
	return w
}

func (w *world) start() {
	w.t.Helper()
	harness.Ready(w.t, w.Cluster)
	var err error
	if w.cl, err = w.Client(); err != nil {
		w.t.Fatal(err)
	}
	harness.Eventually(w.t, "there are nodes", func() bool {
		nodes, err := w.cl.List(w.t.Context(), api.KindNode, client.ListOptions{})
		return err == nil && len(nodes.Items) > 1
	})
}

// write puts objects into the folder of a server that is down: ids are the test's choice.
func (w *world) write(objects ...api.Object) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.Dir, "rest.sums")); err != nil { // what the server left is changed on purpose
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	quiet := slog.New(slog.DiscardHandler)
	e, err := embedded.Start(ctx, embedded.Config{Dir: filepath.Join(w.Dir, "etcd"), Log: quiet})
	if err != nil {
		w.t.Fatal(err)
	}
	s := store.New(store.Config{Client: e.Client(), Log: quiet, Clock: clock.Real})
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	defer func() { cancel(); wg.Wait(); e.Close() }()
	<-s.Ready()
	var ops []store.Op
	for _, o := range objects {
		ops = append(ops, store.Create(o))
	}
	if _, err := s.Commit(ctx, store.Txn{Ops: ops}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) probe(name string) *probe.Probe {
	w.t.Helper()
	p, err := client.Get[*probe.Probe](w.t.Context(), w.cl, api.DefaultProject, name)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// until waits for a condition on a probe.
func (w *world) until(name, what string, ok func(*probe.Probe) bool) (p *probe.Probe) {
	w.t.Helper()
	defer func() {
		if w.t.Failed() && p != nil {
			raw, _ := json.Marshal(p.Status)
			w.t.Logf("%s: %s", name, raw)
		}
	}()
	harness.Eventually(w.t, name+": "+what, func() bool {
		p = w.probe(name)
		return ok(p)
	})
	return p
}

func (w *world) runs(name string, attempt int) *probe.Probe {
	w.t.Helper()
	return w.until(name, fmt.Sprintf("runs, attempt %d", attempt), func(p *probe.Probe) bool {
		return p.Status.Phase == api.PhaseRunning && p.Status.Attempt == attempt
	})
}

// whole is how many nodes of these zones have eight devices of a type.
func (w *world) whole(device string, zones ...string) (n int) {
	w.t.Helper()
	nodes, err := client.List[*api.Node](w.t.Context(), w.cl, client.ListOptions{Limit: 500})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, node := range nodes.Items {
		if len(node.Spec.Devices) == 8 && node.Spec.Devices[0].Type == device && slices.Contains(zones, node.Spec.Zone) {
			n++
		}
	}
	return n
}

// raw is what has no method in the client.
func raw[T any](w *world, path string) (out T) {
	w.t.Helper()
	data, err := w.cl.Raw(w.t.Context(), path, url.Values{"project": {api.DefaultProject}})
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// changes follows all probes from now on.
func (w *world) changes() (seen func() []string) {
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var list []string
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = w.cl.Watch(ctx, probe.Kind, client.WatchOptions{Project: api.DefaultProject}, func(c client.Change) error {
			mu.Lock()
			defer mu.Unlock()
			if p, ok := c.Object.(*probe.Probe); ok {
				list = append(list, fmt.Sprintf("%s %s %s", c.Type, p.Meta.Name, p.Status.Phase))
			}
			return nil
		})
	})
	w.t.Cleanup(func() { cancel(); wg.Wait() })
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
}

// untilTold ends well once a file lies beside its outputs.
const untilTold = `while [ ! -e "$FERMI_OUTPUT/end" ]; do sleep 0.05; done`

func newProbe(name, script string) *probe.Probe {
	return &probe.Probe{Meta: api.Meta{Name: name, Project: api.DefaultProject}, Spec: probe.Spec{
		Role:    api.Role{Command: []string{"/bin/sh", "-c", script}, Resources: api.Resources{Accelerators: api.Accelerators{Type: "A100", Count: 1}}},
		Restart: &api.RestartPolicy{MaxRestarts: 3},
	}}
}

// twins are a task and a probe of one name whose ids differ only in what stands before the hyphen.
func twins(t *testing.T, name string) (*api.TrainingTask, *probe.Probe) {
	t.Helper()
	script := `while :; do sleep 0.1; done`
	task := &api.TrainingTask{Meta: api.Meta{Name: name, DisplayName: name, Project: api.DefaultProject}, Spec: api.TrainingTaskSpec{
		Queue: "default", Zones: &api.ZoneRules{Allow: []string{"beijing-1"}},
		Roles: []api.Role{{Name: "probe", Command: []string{"/bin/sh", "-c", script}, Resources: api.Resources{Accelerators: api.Accelerators{Type: "A100", Count: 1}}}},
	}}
	p := newProbe(name, script)
	p.Meta.DisplayName, p.Spec.Queue = name, "default"
	for _, o := range []api.Object{task, p} {
		if err := api.Prepare(o, id.Default.Random); err != nil {
			t.Fatal(err)
		}
	}
	task.Meta.ID = id.Default.New("task")
	p.Meta.ID = "probe" + strings.TrimPrefix(task.Meta.ID, "task")
	task.Meta.Owner, p.Meta.Owner = "admin", "admin"
	task.Meta.CreatedAt, p.Meta.CreatedAt = clock.Real.Now().UTC(), clock.Real.Now().UTC()
	task.Status.Phase, p.Status = api.PhasePending, work.Status{Phase: api.PhasePending}
	return task, p
}

// TestAFurtherKind: a kind that only this folder knows is served like any other.
func TestAFurtherKind(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("processes of replicas are looked at as root")
	}
	w := newWorld(t, "--demo", "--archive-after", "2s")
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	task, twin := twins(t, "same")
	w.write(task, twin)
	w.start()
	seen := w.changes()
	ctx := t.Context()

	// Placed, beside the task of its name.
	w.runs("same", 1)
	harness.Eventually(t, "the task runs", func() bool { return harness.Task(t, w.cl, "same").Status.Phase == api.PhaseRunning })
	for _, owner := range []string{task.Meta.ID, twin.Meta.ID} {
		if _, err := client.Get[*api.Placement](ctx, w.cl, api.DefaultProject, owner); err != nil {
			t.Errorf("the place of %s: %v", owner, err)
		}
	}
	taskRuns := harness.Processes("FERMI_TASK_ID=" + task.Meta.ID)
	own := harness.Processes("FERMI_TASK_ID=" + twin.Meta.ID)
	if len(taskRuns) == 0 || len(own) == 0 {
		t.Fatalf("processes: %v, %v", taskRuns, own)
	}
	if share, err := w.cl.Share(ctx, "default"); err != nil || !slices.ContainsFunc(share.Runs, func(s api.ShareTask) bool { return s.ID == twin.Meta.ID && s.Name == "same" }) {
		t.Errorf("its queue does not count it: %+v", share.Runs)
	}
	p, err := client.Get[*api.Project](ctx, w.cl, "", api.DefaultProject)
	if err != nil || p.Status.Usage == nil || p.Status.Usage.Objects != 2 {
		t.Errorf("its project does not count it: %+v, %v", p.Status, err)
	}

	// A new leader takes it over as it runs, and sweeps nothing.
	w.Kill()
	w.start()
	w.runs("same", 1)
	if now := harness.Processes("FERMI_TASK_ID=" + twin.Meta.ID); len(now) == 0 || now[0] != own[0] { // those below it come and go
		t.Errorf("its processes were %v and are %v", own, now)
	}

	// Restarted when a process of it dies; the task goes on.
	if err := syscall.Kill(own[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if again := w.runs("same", 2); len(again.Status.Restarts) != 1 {
		t.Errorf("restarts: %v", again.Status.Restarts)
	}

	// Drained: it goes on elsewhere.
	type replica struct{ Name, Node, State string }
	stands := func() string {
		for _, r := range raw[struct{ Items []replica }](w, "/probes/same/replicas").Items {
			if r.State == "Running" {
				return r.Node
			}
		}
		return ""
	}
	var node string
	harness.Eventually(t, "it is known where it runs", func() bool { node = stands(); return node != "" })
	if _, err := w.cl.NodeVerb(ctx, "drain", node, -1); err != nil {
		t.Fatal(err)
	}
	w.runs("same", 3)
	harness.Eventually(t, "it runs elsewhere", func() bool { now := stands(); return now != "" && now != node })
	if _, err := w.cl.NodeVerb(ctx, "uncordon", node, -1); err != nil {
		t.Fatal(err)
	}

	// Listed, by phase too; made, explained, ended and archived through the API.
	done, err := client.Create(ctx, w.cl, newProbe("done", untilTold))
	if err != nil || done.Spec.Queue != "default" || done.Status.Phase != api.PhasePending {
		t.Fatalf("%+v, %v", done, err)
	}
	w.runs("done", 1)
	big := newProbe("big", "true")
	big.Spec.Role.Replicas, big.Spec.Role.Resources.Accelerators.Count = w.whole("A100", "beijing-1", "beijing-2"), 8 // all that are near each other, and the task stands there
	if _, err := client.Create(ctx, w.cl, big); err != nil {
		t.Fatal(err)
	}
	var why struct{ Reason string }
	harness.Eventually(t, "what waits says why", func() bool {
		why = raw[struct{ Reason string }](w, "/probes/big/why")
		return why.Reason != "" && why.Reason != "Submitted"
	})
	t.Logf("big waits: %s", why.Reason)
	page, err := client.List[*probe.Probe](ctx, w.cl, client.ListOptions{Project: api.DefaultProject, Phase: []string{string(api.PhaseRunning)}, Sort: "name"})
	if err != nil || len(page.Items) != 2 || page.Items[0].Meta.Name != "done" || page.Items[1].Meta.Name != "same" {
		t.Errorf("listed: %+v, %v", page.Items, err)
	}
	if err := os.WriteFile(filepath.Join(w.Dir, "engine", "replicas", done.Meta.ID+"-probe-0-1", "output", "end"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	w.until("done", "ends well", func(p *probe.Probe) bool { return p.Status.Phase == api.PhaseCompleted })
	harness.Eventually(t, "it is archived, and its folder is gone", func() bool {
		dirs, _ := filepath.Glob(filepath.Join(w.Dir, "engine", "replicas", done.Meta.ID+"-*"))
		return len(dirs) == 0 && slices.Contains(seen(), "deleted done Completed")
	})
	if p := w.probe("done"); p.Meta.ID != done.Meta.ID || p.Status.Phase != api.PhaseCompleted {
		t.Errorf("from the archive: %+v", p)
	}

	// Charged for all its stays.
	usage, err := w.cl.Usage(ctx, client.UsageOptions{By: "task", From: "1h"})
	if err != nil {
		t.Fatal(err)
	}
	charged := func(id string) (sum client.UsageSum) {
		for _, u := range usage.Items {
			if u.Key == id {
				sum = u
			}
		}
		return sum
	}
	if u := charged(twin.Meta.ID); u.Name != "same" || u.Replicas != 3 || u.Running != 1 || u.DeviceHours <= 0 || len(u.Costs) == 0 {
		t.Errorf("charged: %+v", u)
	}
	if u := charged(done.Meta.ID); u.Name != "done" || u.Replicas != 1 || u.Running != 0 || u.DeviceHours <= 0 {
		t.Errorf("charged: %+v", u)
	}

	// Deleted: processes end, then nothing is left of it. The task of its name was not touched by any of this.
	for _, name := range []string{"same", "big"} {
		if err := w.cl.Delete(ctx, probe.Kind, api.DefaultProject, name); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, name+" is gone", func() bool {
			_, err := w.cl.Get(ctx, probe.Kind, api.DefaultProject, name)
			return fault.Is(err, fault.NotFound)
		})
	}
	if left := harness.Processes("FERMI_TASK_ID=" + twin.Meta.ID); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	if _, err := client.Get[*api.Placement](ctx, w.cl, api.DefaultProject, twin.Meta.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("its place: %v", err)
	}
	if left := harness.Task(t, w.cl, "same"); left.Status.Phase != api.PhaseRunning || len(left.Status.Restarts) > 0 {
		t.Errorf("the task: %+v", left.Status)
	}
	for _, want := range []string{"modified same Running", "added done ", "modified done Running", "modified done Completed", "deleted same "} {
		harness.Eventually(t, want+"is seen", func() bool { // a watch joins what passes quickly
			return slices.ContainsFunc(seen(), func(s string) bool { return strings.HasPrefix(s, want) })
		})
	}
}
