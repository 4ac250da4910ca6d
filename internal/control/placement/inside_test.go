package placement_test

import (
	"context"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/placement"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

// host is a running task of one replica with its place.
func host(name string, node uint32) (*api.TrainingTask, *api.Placement) {
	t := task(name, 1, 2)
	t.Status = api.TrainingTaskStatus{Phase: api.PhaseRunning, Attempt: 3}
	return t, &api.Placement{Meta: api.Meta{ID: id.Default.New("plc"), Name: t.Meta.ID, DisplayName: name, Project: "p"}, Spec: api.PlacementSpec{
		TaskID: t.Meta.ID, Attempt: 3, Roles: []api.RoleAssignment{{Role: "worker", Slots: api.Slots{{Node: node, Devices: 3}}}},
	}}
}

func guest(name string, inside ...string) *api.TrainingTask {
	t := task(name, len(inside), 0)
	t.Spec.Inside, t.Spec.Roles[0].Resources = inside, api.Resources{}
	return t
}

// TestInside: a guest gets its environments' places once all run and none is another's; who asked first has
// them first, and who waits says for whom. A new leader goes on from what is written.
func TestInside(t *testing.T) {
	s := storetest.Open(t)
	a, at := host("env-a", 1)
	b, bt := host("env-b", 2)
	commit(t, s, store.Create(a), store.Create(at))
	lead := func() (*placement.Controller, func()) {
		c := placement.New(placement.Config{Store: s, Clock: clock.Real, IDs: id.Default, Log: quiet, Host: "h", Processes: 100})
		leading, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- s.Campaign(leading, "me", func(ctx context.Context, epoch store.Epoch) error { return c.Run(ctx, epoch) })
		}()
		return c, func() { stop(); <-ended }
	}
	c, stop := lead()
	waits := func(g *api.TrainingTask, reason, names string) {
		t.Helper()
		eventually(t, g.Meta.Name+" waits for "+names, func() bool {
			why, ok := c.Why(g.Meta.ID)
			return ok && why.Reason == reason && strings.Contains(why.Message.EN, names) && strings.Contains(why.Message.ZH, names)
		})
	}
	first := guest("first", "env-b", "env-a")
	commit(t, s, store.Create(first))
	waits(first, "EnvironmentNotRunning", "env-b")
	short := guest("short", "env-a") // younger, but first can't start
	commit(t, s, store.Create(short))
	eventually(t, "short is placed", func() bool { return place(s, "short") != nil })
	commit(t, s, store.Create(b), store.Create(bt))
	waits(first, "EnvironmentInUse", "short")
	last := guest("last", "env-b")
	commit(t, s, store.Create(last))
	waits(last, "EnvironmentInUse", "first") // env-b is free, and first was there before

	stop()
	c, stop = lead()
	defer func() { stop() }()
	waits(first, "EnvironmentInUse", "short")
	end := func(g *api.TrainingTask) {
		done := store.Clone(g)
		done.Status.Phase = api.PhaseCompleted
		commit(t, s, store.Update(done), store.Delete(api.KeyOf(place(s, g.Meta.Name)), 0))
	}
	end(short)
	eventually(t, "first is placed", func() bool { return place(s, "first") != nil })
	p := place(s, "first").Spec
	if len(p.Inside) != 2 || p.Inside[0] != (api.Lender{Task: "env-b", TaskID: b.Meta.ID, Role: "worker", Attempt: 3}) ||
		len(p.Roles) != 1 || p.Roles[0].Slots[0] != (api.Slot{Node: 2, Devices: 3}) || p.Roles[0].Slots[1] != (api.Slot{Node: 1, Devices: 3}) {
		t.Errorf("%+v", p)
	}
	if n, ok := waiting(c, "q"); !ok || n != 0 {
		t.Errorf("the planner knows of %d guests", n)
	}
	waits(last, "EnvironmentInUse", "first")
	stopping := store.Clone(b)
	stopping.Spec.Stop = true
	commit(t, s, store.Update(stopping))
	waits(last, "EnvironmentNotRunning", "env-b")
	end(first)
	waits(last, "EnvironmentNotRunning", "env-b")
	if place(s, "last") != nil {
		t.Error("it was placed in what ends")
	}
}
