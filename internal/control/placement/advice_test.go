package placement_test

import (
	"context"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/node"
	"github.com/fermi-cluster/fermi/internal/control/placement"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
	"github.com/fermi-cluster/fermi/sched"
	"github.com/fermi-cluster/fermi/sched/advice"
)

// A task that waits behind a reservation is told to raise its priority as far as its project allows that, and no further.
func TestWhyKeepsToTheProjectsPriority(t *testing.T) {
	s := storetest.Open(t)
	syncer := node.New(node.Config{
		Store: s, Clock: clock.Real, IDs: id.Default, Log: quiet,
		Zones: []api.Zone{{Meta: api.Meta{Name: "z"}, Spec: api.ZoneSpec{Region: "r"}}},
		Nodes: func() ([]api.Node, bool) { return nodes(2), true },
	})
	if err := syncer.Sync(t.Context(), store.Epoch{}); err != nil {
		t.Fatal(err)
	}
	first, gang, x := task("first", 1, 2), task("gang", 2, 2), task("x", 1, 1)
	x.Spec.ExpectedTime = api.Duration(10 * time.Hour)
	project := &api.Project{Meta: api.Meta{ID: id.Default.New("project"), Name: "p"}}
	commit(t, s, store.Create(first), store.Create(project), store.Create(&api.Queue{Meta: api.Meta{ID: id.Default.New("queue"), Name: "q"}}))
	c := placement.New(placement.Config{Store: s, Clock: clock.Real, IDs: id.Default, Log: quiet, Host: "h", Processes: 100})
	leading, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.Campaign(leading, "me", func(ctx context.Context, epoch store.Epoch) error { return c.Run(ctx, epoch) })
	}()
	t.Cleanup(func() { stop(); <-ended })
	eventually(t, "the first stands", func() bool { return place(s, "first") != nil })
	commit(t, s, store.Create(gang))
	eventually(t, "the gang waits", func() bool { _, ok := c.Why(gang.Meta.ID); return ok })
	commit(t, s, store.Create(x))
	why := func() (ex sched.Explanation) {
		eventually(t, "it waits behind the gang", func() bool {
			var ok bool
			ex, ok = c.Why(x.Meta.ID)
			return ok && ex.Reason == advice.ReasonReserved
		})
		return ex
	}
	if ex := why(); ex.Change.Kind == advice.ChangePriority {
		t.Errorf("advised what would be refused: %+v", ex)
	}
	o, err := s.Get(t.Context(), api.KeyOf(project), 0)
	if err != nil {
		t.Fatal(err)
	}
	may := store.Clone(o.(*api.Project))
	may.Spec.MaxPriority = 501
	commit(t, s, store.Update(may))
	eventually(t, "what is allowed is advised", func() bool { ex := why(); return ex.Change.Kind == advice.ChangePriority && ex.Change.Value == 501 })
}
