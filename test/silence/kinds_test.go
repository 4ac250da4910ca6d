package silence

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/internal/control/work"
)

func TestMain(m *testing.M) {
	kinds.Ship() // for the client, which has the same table
	kinds.ShipServices()
	os.Exit(m.Run())
}

// ofOwner is the replica of somebody's attempt.
func (w *world) ofOwner(id string, attempt string) string {
	w.t.Helper()
	found, _ := filepath.Glob(filepath.Join(w.c.Dir, "engine", "replicas", id+"-*-0-"+attempt))
	if len(found) != 1 {
		w.t.Fatalf("replicas of %s: %v", id, found)
	}
	return filepath.Base(found[0])
}

// small is what environments and replicas of services ask for here: a whole node's devices.
var small = api.Resources{CPU: 100, Memory: 1 << 28, Accelerators: api.Accelerators{Count: 1}}

// TestSilentService: a service's replica on a silent node gets no more requests, and another one takes its place; its device is closed
// until it has ended.
func TestSilentService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	defer w.holders()()
	ctx := t.Context()
	service := &serving.InferenceService{Meta: api.Meta{Name: "spirals", Project: "default"}, Spec: serving.ServiceSpec{
		Replicas: 2, Template: serving.ServiceTemplate{Engine: serving.EngineSample, Resources: small},
	}}
	if _, err := client.Create(ctx, w.cl, service); err != nil {
		t.Fatal(err)
	}
	whole := func() (*serving.InferenceService, bool) {
		s, err := client.Get[*serving.InferenceService](ctx, w.cl, "default", "spirals")
		if err != nil {
			t.Fatal(err)
		}
		return s, s.Status.Replicas.Ready == 2 && s.Status.Health == serving.Healthy
	}
	replica := func(name string) *serving.ServiceReplica {
		r, err := client.Get[*serving.ServiceReplica](ctx, w.cl, "default", name)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	w.until("both replicas answer", func() bool { _, ok := whole(); return ok })
	page, err := client.List[*serving.ServiceReplica](ctx, w.cl, client.ListOptions{Project: "default"})
	if err != nil || len(page.Items) != 2 {
		t.Fatal(page.Items, err)
	}
	victim := page.Items[0]
	launcher := w.ofOwner(victim.Meta.ID, "1")
	w.freeze(launcher)
	defer w.thaw(launcher)
	w.until("it gets no more requests", func() bool { return !replica(victim.Meta.Name).Status.Ready })
	if r := replica(victim.Meta.Name); r.Status.Attempt == 1 && !strings.Contains(r.Status.Why, victim.Status.Node+" is silent since") {
		t.Errorf("why: %q", r.Status.Why)
	}
	if s, _ := whole(); s.Status.Health != serving.Degraded && s.Status.Replicas.Ready != 2 {
		t.Errorf("%+v", s.Status)
	}
	for range 20 {
		if status, body := w.ask("/inference/spirals/"); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	w.until("another takes its place", func() bool { _, ok := whole(); return ok })
	r := replica(victim.Meta.Name)
	if r.Status.Attempt < 2 || r.Status.Node == victim.Status.Node {
		t.Errorf("attempt %d on %s", r.Status.Attempt, r.Status.Node)
	}
	// It is told to stop without any grace from its loss on; who does not hear is killed ten seconds later. Meanwhile its device is closed.
	if n := w.node(victim.Status.Node); alive(w.launcher(launcher)) && n.Status.Holds.Of(launcher) == nil {
		t.Errorf("its device is open: %+v", n.Status)
	}
	w.thaw(launcher)
	w.until("its device is free", func() bool { return len(w.node(victim.Status.Node).Status.Holds) == 0 })
	for range 20 {
		if status, body := w.ask("/inference/spirals/"); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
}

// ask asks a service through the server's gateway.
func (w *world) ask(path string) (int, string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+w.c.Addr+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.token())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// TestSilentEnvironment: an environment on a silent node is unreachable and nowhere else; it is as it was when it is heard again. When an
// operator says that its node is gone, it says what can be done, and a start opens its home elsewhere, once.
func TestSilentEnvironment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	defer w.holders()()
	ctx := t.Context()
	if _, err := client.Create(ctx, w.cl, &devenv.DevEnvironment{Meta: api.Meta{Name: "lab", Project: "default"}, Spec: devenv.Spec{Resources: small}}); err != nil {
		t.Fatal(err)
	}
	env := func() *devenv.DevEnvironment {
		e, err := client.Get[*devenv.DevEnvironment](ctx, w.cl, "default", "lab")
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	w.until("it runs", func() bool { return env().Status.Phase == api.PhaseRunning })
	id := env().Meta.ID
	launcher := w.ofOwner(id, "1")
	node := w.nodeOf(launcher)
	kept := filepath.Join(w.c.Dir, "engine", "homes", id, "kept")
	if err := os.WriteFile(kept, []byte("work"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.freeze(launcher)
	defer w.thaw(launcher)
	at := time.Now()
	w.until("it is unreachable", func() bool { return env().Status.Reason == work.Unreachable })
	t.Logf("unreachable after %s", time.Since(at))
	if s := env().Status; s.Phase != api.PhaseRunning || s.Attempt != 1 || !strings.Contains(s.Message.EN, node+" is silent since") {
		t.Errorf("%+v", s)
	}
	w.thaw(launcher)
	at = time.Now()
	w.until("it is heard again", func() bool { return env().Status.Reason == "Started" })
	t.Logf("heard again after %s", time.Since(at))
	if s := env().Status; s.Attempt != 1 || !alive(w.launcher(launcher)) {
		t.Errorf("%+v", s)
	}

	w.freeze(launcher)
	w.until("it is unreachable again", func() bool { return env().Status.Reason == work.Unreachable })
	w.fermi("node", "lost", node, "--yes")
	w.until("it says so", func() bool { return env().Status.Phase == api.PhaseFailed })
	if s := env().Status; s.Reason != "NodeLost" || s.Attempt != 1 || !strings.Contains(s.Message.EN, "fermi env start lab") {
		t.Errorf("%+v", s)
	}
	at = time.Now()
	w.fermi("env", "start", "lab", "--project", "default")
	w.until("it runs elsewhere", func() bool {
		s := env().Status
		return s.Phase == api.PhaseRunning && s.Attempt > 1
	})
	t.Logf("elsewhere after %s", time.Since(at))
	if alive(w.launcher(launcher)) {
		t.Error("its home is open twice")
	}
	if at := w.nodeOf(w.ofOwner(id, "2")); at == node {
		t.Errorf("it is on %s again", at)
	}
	if raw, err := os.ReadFile(kept); err != nil || string(raw) != "work" {
		t.Errorf("its home: %q, %v", raw, err)
	}
	w.until("nothing is left of the first", func() bool { return len(w.node(node).Status.Holds) == 0 })
}

// nodeOf is where a replica is.
func (w *world) nodeOf(name string) string {
	w.t.Helper()
	page, err := w.cl.List(w.t.Context(), api.KindNode, client.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	spec := w.spec(name)
	if !slices.ContainsFunc(page.Items, func(o api.Object) bool { return o.GetMeta().Name == spec.Node }) {
		w.t.Fatalf("%s is on %q", name, spec.Node)
	}
	return spec.Node
}
