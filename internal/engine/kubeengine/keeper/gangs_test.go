package keeper

import (
	"encoding/json"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// TestGangSpec: a gang in the words of each keeper: sets of replicas for Kueue, their sum for Volcano; what Kueue could not take is refused with what would be right.
func TestGangSpec(t *testing.T) {
	g := Gang{Priority: 3, Sets: []GangSet{
		{Role: "Worker", Count: 3, Resources: api.Resources{CPU: 1500, Memory: 1 << 30}, Devices: []string{"nvidia.com/gpu#0", "nvidia.com/gpu#5"}},
		{Role: "ps", Count: 1, Resources: api.Resources{CPU: 500}},
	}}
	words := func(k Keeper) string {
		t.Helper()
		spec, err := g.spec(k, "research")
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if got, want := words(Volcano), `{"minMember":4,"minResources":{"cpu":"5","memory":"3Gi","nvidia.com/gpu":"6","pods":"4"},"queue":"research"}`; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	kueue := words(Kueue)
	for _, want := range []string{`"queueName":"research"`, `"priority":3`, `"count":3,"name":"worker"`, `"requests":{"cpu":"1500m","memory":"1Gi","nvidia.com/gpu":"2"}`, `"count":1,"name":"ps"`} {
		if !strings.Contains(kueue, want) {
			t.Errorf("%s has no %s", kueue, want)
		}
	}
	for range maxSets {
		g.Sets = append(g.Sets, GangSet{Role: "more", Count: 1})
	}
	if _, err := g.spec(Kueue, "research"); fault.ReasonOf(err) != "GangTooVaried" {
		t.Errorf("too many sorts: %v", err)
	}
	g.Sets = []GangSet{{Role: "worker", Count: 1, Devices: []string{"GPU-of-a-host"}}}
	if _, err := g.spec(Kueue, "research"); fault.ReasonOf(err) != "DeviceUnknown" {
		t.Errorf("a device of no cluster: %v", err)
	}
}

// TestLetIn: whose word lets a gang in, and what is said of one that waits.
func TestLetIn(t *testing.T) {
	for _, c := range []struct {
		keeper Keeper
		status string
		in     bool
		why    string
		out    bool
	}{
		{Kueue, `{}`, false, "", false},
		{Kueue, `{"conditions":[{"type":"QuotaReserved","status":"False","reason":"Pending","message":"insufficient quota"}]}`, false, "insufficient quota", false},
		{Kueue, `{"conditions":[{"type":"QuotaReserved","status":"True"},{"type":"Admitted","status":"True"}]}`, true, "", false},
		{Kueue, `{"conditions":[{"type":"Evicted","status":"True","reason":"Preempted","message":"by another"},{"type":"Admitted","status":"False","message":"evicted"}]}`, false, "evicted", true},
		{Volcano, `{"phase":"Pending"}`, false, "Pending", false},
		{Volcano, `{"phase":"Pending","conditions":[{"type":"Unschedulable","status":"True","message":"queue is full"}]}`, false, "queue is full", false},
		{Volcano, `{"phase":"Inqueue"}`, true, "", false},
		{Volcano, `{"phase":"Running"}`, true, "", false},
	} {
		var h handed
		if err := json.Unmarshal([]byte(`{"status":`+c.status+`}`), &h); err != nil {
			t.Fatal(err)
		}
		in, why := h.letIn(c.keeper)
		_, out := h.evicted(c.keeper)
		if in != c.in || !in && why != c.why || out != c.out {
			t.Errorf("%s %s: %v %q %v", c.keeper, c.status, in, why, out)
		}
	}
}

// TestWaits: of a gang that waits its keeper's words are kept, of one that was let in or is gone nothing.
func TestWaits(t *testing.T) {
	g := &Gangs{Cluster: &kubeengine.Cluster{Zone: "k1"}, Keeper: Kueue, Queue: "research"}
	take := func(status string) bool {
		t.Helper()
		h := &handed{}
		if err := json.Unmarshal([]byte(`{"metadata":{"name":"task-1-2","creationTimestamp":"2026-11-19T08:00:00Z"},"status":`+status+`}`), h); err != nil {
			t.Fatal(err)
		}
		return g.note("task-1-2", "task-1", h)
	}
	take(`{}`)
	if a, ok := g.Waits("task-1"); !ok || len(a.Said) != 0 || a.Zone != "k1" || a.Queue != "research" || a.Since.Hour() != 8 {
		t.Errorf("nothing was said: %+v %v", a, ok)
	}
	take(`{"conditions":[{"type":"QuotaReserved","status":"False","reason":"Pending","message":"insufficient quota\n for nvidia.com/gpu"},{"type":"Requeued","status":"True"}]}`)
	if a, _ := g.Waits("task-1"); len(a.Said) != 1 || a.Said[0] != "QuotaReserved=False: insufficient quota for nvidia.com/gpu" {
		t.Errorf("%q", a.Said)
	}
	if _, ok := g.Waits("task-2"); ok {
		t.Error("another task waits, too")
	}
	many := `{"conditions":[` + strings.TrimSuffix(strings.Repeat(`{"type":"T","status":"False","message":"m"},`, 50), ",") + `]}`
	take(many)
	if a, _ := g.Waits("task-1"); len(a.Said) != mostWords {
		t.Errorf("%d words of a keeper that says much", len(a.Said))
	}
	if news := take(`{"conditions":[{"type":"Admitted","status":"True"}]}`); !news {
		t.Error("it is no news that it was let in")
	}
	if _, ok := g.Waits("task-1"); ok {
		t.Error("it was let in, and waits")
	}
	take(`{}`)
	g.forget("task-1-2")
	if _, ok := g.Waits("task-1"); ok {
		t.Error("it is gone, and waits")
	}
}
