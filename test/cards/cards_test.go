package cards

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// kinds of faults that close a device.
var kinds = []string{"xid-79", "xid-48", "xid-94", "xid-119", "ecc", "lost", "throttle", "nvlink", "pcie", "rows", "silent", "recovery"}

type world struct {
	*testing.T
	cl *client.Client
}

func (w world) task(name string) *api.TrainingTask { return harness.Task(w, w.cl, name) }

func (w world) nodes() map[uint32]*api.Node {
	w.Helper()
	out := map[uint32]*api.Node{}
	if err := w.cl.Walk(w.Context(), api.KindNode, client.ListOptions{Limit: 500}, func(o api.Object) bool {
		out[o.(*api.Node).Spec.Number] = o.(*api.Node)
		return true
	}); err != nil {
		w.Fatal(err)
	}
	return out
}

func (w world) placements() (out []*api.Placement) {
	w.Helper()
	if err := w.cl.Walk(w.Context(), api.KindPlacement, client.ListOptions{Limit: 500}, func(o api.Object) bool {
		out = append(out, o.(*api.Placement))
		return true
	}); err != nil {
		w.Fatal(err)
	}
	return out
}

func (w world) health(node string, device int) *card.DeviceHealth {
	w.Helper()
	n, err := client.Get[*api.Node](w.Context(), w.cl, "", node)
	if err != nil {
		w.Fatal(err)
	}
	return card.Of(n.Status.Devices, device)
}

// onClosed names a placement on a device that is closed.
func (w world) onClosed() string {
	w.Helper()
	nodes := w.nodes()
	for _, p := range w.placements() {
		for _, r := range p.Spec.Roles {
			for _, s := range r.Slots {
				if n := nodes[s.Node]; n != nil && card.Closed(n.Status.Devices)&s.Devices != 0 {
					return fmt.Sprintf("%s on %s, devices %b, closed %b", p.OwnerName(), n.Meta.Name, s.Devices, card.Closed(n.Status.Devices))
				}
			}
		}
	}
	return ""
}

// victim is a gang that trains and saves only when it is asked to.
func victim(name string) *api.TrainingTask {
	seldom := &api.CheckpointTier{Every: api.Duration(24 * time.Hour)}
	return &api.TrainingTask{Meta: api.Meta{Name: name}, Spec: api.TrainingTaskSpec{
		Roles: []api.Role{{
			Name: "worker", Replicas: 2, Command: []string{"fermi", "sample", "train", "--steps", "1000000000", "--step-time", "30ms"},
			Resources: api.Resources{CPU: 1000, Memory: 1 << 28, Accelerators: api.Accelerators{Type: "V100", Count: 2}},
		}},
		Zones: &api.ZoneRules{Allow: []string{"beijing-1"}}, Checkpoint: &api.Checkpoints{Shared: seldom},
	}}
}

// TestDrills: FERMI_DRILLS seeded faults, from FERMI_SEED on. Every fault leads to cordon, save, move and, where told to heal, return;
// nothing is placed on a closed card, and the node's history counts each.
func TestDrills(t *testing.T) {
	drills, seed := harness.EnvInt("FERMI_DRILLS", 2), harness.EnvInt("FERMI_SEED", 1)
	t.Logf("%d drills from seed %d", drills, seed)
	_, cl := harness.Up(t, "--demo", "--checkpoints-store", t.TempDir())
	w := world{t, cl}
	random := rand.New(rand.NewPCG(uint64(seed), 7))
	names := []string{"one", "two"}
	for _, name := range names {
		if _, err := cl.Create(t.Context(), victim(name), false); err != nil {
			t.Fatal(err)
		}
	}
	used := map[string]bool{} // one that was closed four times in a day would not return
	for i := range drills {
		name, kind, heal := names[random.IntN(len(names))], kinds[random.IntN(len(kinds))], random.IntN(3) > 0
		w.drill(fmt.Sprintf("drill %d of seed %d: %s of %s, heal %v", i, seed, kind, name, heal), random, name, kind, heal, used)
	}
	// All that is free is given to others: what is closed is not.
	closed := 0
	for _, n := range w.nodes() {
		closed += bits.OnesCount64(card.Closed(n.Status.Devices))
	}
	filler := victim("filler")
	free := 32 - 8 - closed
	filler.Spec.Roles[0].Replicas, filler.Spec.Roles[0].Command = free, []string{"/bin/sh", "-c", "sleep 1000000"}
	filler.Spec.Roles[0].Resources = api.Resources{CPU: 100, Memory: 1 << 24, Accelerators: api.Accelerators{Type: "V100", Count: 1}}
	filler.Spec.Checkpoint = nil
	if _, err := cl.Create(t.Context(), filler, false); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, fmt.Sprintf("%d devices are given to others", free), func() bool { return w.task("filler").Status.Phase == api.PhaseRunning })
	if bad := w.onClosed(); bad != "" {
		t.Error("placed on a closed card: " + bad)
	}
	// An operator's word returns what is kept out, one way or the other.
	word := []string{"test", "uncordon"}
	for _, n := range w.nodes() {
		for _, h := range n.Status.Devices {
			if !h.Closed() {
				continue
			}
			if _, err := cl.NodeVerb(t.Context(), word[random.IntN(2)], n.Meta.Name, h.Device); err != nil {
				t.Error(err)
			}
			harness.Eventually(t, "it takes work again", func() bool { return !w.health(n.Meta.Name, h.Device).Closed() })
		}
	}
}

func (w world) drill(what string, random *rand.Rand, name, kind string, heal bool, used map[string]bool) {
	w.Helper()
	w.Log(what)
	var before *api.TrainingTask
	harness.Eventually(w, what+": its task makes steps", func() bool {
		before = w.task(name)
		return before.Status.Phase == api.PhaseRunning && before.Status.Pace != nil && before.Status.Pace.Step > 0
	})
	node, device := w.target(random, name, used)
	failures := w.failures(node)
	if _, err := client.NodeFault(w.Context(), w.cl, node, device, kind, heal); err != nil {
		w.Fatal(err)
	}
	// Cordon, with the fault as the reason.
	harness.Eventually(w, what+": the card is closed", func() bool {
		h := w.health(node, device)
		return h != nil && h.Total > 0 && h.Faults[len(h.Faults)-1].Kind == kind && h.Faults[len(h.Faults)-1].Closed
	})
	// Save and move.
	var after *api.TrainingTask
	harness.Eventually(w, what+": its task goes on elsewhere", func() bool {
		after = w.task(name)
		return after.Status.Attempt > before.Status.Attempt && after.Status.Phase == api.PhaseRunning && after.Status.Pace != nil && after.Status.Pace.Step > before.Status.Pace.Step
	})
	saved, err := w.cl.Checkpoints(w.Context(), api.DefaultProject, name)
	if err != nil || len(saved) == 0 || saved[len(saved)-1].Step < before.Status.Pace.Step {
		w.Errorf("%s: at step %d it was not saved: %+v %v", what, before.Status.Pace.Step, saved, err)
	}
	if len(after.Status.Restarts) > 0 {
		w.Errorf("%s: moving was counted as a restart", what)
	}
	want := card.DeviceOut
	if heal {
		want = card.DeviceOpen
	}
	harness.Eventually(w, what+": the card is "+string(want), func() bool { return w.health(node, device).State == want })
	if h := w.health(node, device); heal != h.Test.Passed || heal == h.Closed() || !heal && (h.Message.EN == "" || h.Message.ZH == "") {
		w.Errorf("%s: %+v", what, h)
	}
	harness.Eventually(w, what+": nothing stands on a closed card", func() bool { return w.onClosed() == "" })
	if got := w.failures(node); got != failures+1 {
		w.Errorf("%s: the node's history has %d faults, after %d", what, got, failures)
	}
	w.told(what, node, heal)
}

// target is a device on which the task stands, one that was not drilled before where there is such.
func (w world) target(random *rand.Rand, name string, used map[string]bool) (node string, device int) {
	w.Helper()
	p, err := harness.PlaceOf(w.Context(), w.cl, name)
	if err != nil {
		w.Fatal(err)
	}
	nodes := w.nodes()
	type at struct {
		node   string
		device int
	}
	var fresh, all []at
	for _, s := range p.Spec.Roles[0].Slots {
		for d := range 64 {
			if s.Devices&(1<<d) == 0 {
				continue
			}
			one := at{nodes[s.Node].Meta.Name, d}
			if all = append(all, one); !used[fmt.Sprint(one)] {
				fresh = append(fresh, one)
			}
		}
	}
	if len(fresh) == 0 {
		fresh = all
	}
	one := fresh[random.IntN(len(fresh))]
	used[fmt.Sprint(one)] = true
	return one.node, one.device
}

func (w world) failures(node string) int {
	w.Helper()
	n, err := client.Get[*api.Node](w.Context(), w.cl, "", node)
	if err != nil {
		w.Fatal(err)
	}
	return n.Status.Failures
}

// told wants the node's events to say what became of it.
func (w world) told(what, node string, heal bool) {
	w.Helper()
	reason := "DeviceKeptOut"
	if heal {
		reason = "DeviceReturned"
	}
	harness.Eventually(w, what+": events of the card", func() bool {
		list, err := w.cl.Events(w.Context(), client.EventOptions{Kind: api.KindNode, Name: node, Limit: 500})
		if err != nil {
			w.Fatal(err)
		}
		var all strings.Builder
		for _, e := range list {
			all.WriteString(e.Reason + " ")
		}
		return strings.Contains(all.String(), "DeviceClosed") && strings.Contains(all.String(), reason)
	})
}
