package placement_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/placement"
	"github.com/fermi-cluster/fermi/internal/engine/inventory"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/history/sqlstore"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

// ended is a task as its controller leaves it.
func ended(t *api.TrainingTask, took time.Duration) *api.TrainingTask {
	begin := time.Date(2026, 5, 4, 8, 0, 0, 0, time.UTC)
	end := begin.Add(took)
	t.Status = api.TrainingTaskStatus{Phase: api.PhaseCompleted, Attempt: 1, StartedAt: &begin, FinishedAt: &end, Zones: []string{"beijing-1"}}
	return t
}

// TestANewLeaderLearns: what finished before it led, and what finishes while it does, replaces the
// estimate of efficiency.
func TestANewLeaderLearns(t *testing.T) {
	past, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(t.TempDir(), "h")})
	if err != nil {
		t.Fatal(err)
	}
	defer past.Close()
	for nodes, took := range map[int]time.Duration{1: 100 * time.Minute, 4: 50 * time.Minute} {
		run := seedTask(nodes, "A100")
		run.Meta.DisplayName = "训练 1"
		if err := past.PutRun(t.Context(), history.RunOf(ended(run, took), nodes, took)); err != nil {
			t.Fatal(err)
		}
	}
	s := storetest.Open(t)
	waiting := seedTask(1, "A100") // it ran for an hour before, and had to go
	waiting.Meta.Name, waiting.Status.Attempt, waiting.Spec.Zones = "again", 1, &api.ZoneRules{Allow: []string{"nowhere"}}
	if err := errors.Join(
		past.PutUsage(t.Context(), history.UsageRow{Replica: "r", TaskID: waiting.Meta.ID, Start: time.Unix(0, 0), Stop: time.Unix(3600, 0)}),
		past.AddEvents(t.Context(), history.Event{ID: waiting.Meta.ID, Reason: "Preempted"}),
	); err != nil {
		t.Fatal(err)
	}
	commit(t, s, store.Create(waiting))
	asked := &asking{Past: past}
	zones, nodes := inventory.Demo()
	c := lead(t, s, zones, nodes, func(cfg *placement.Config) { cfg.Past = asked })
	preview := func(nodes int) api.EfficiencyNote {
		next := seedTask(nodes, "A100")
		next.Meta.DisplayName = "训练 9"
		p, err := c.Preview(t.Context(), next)
		if err != nil || p.Planned == nil {
			return api.EfficiencyNote{}
		}
		return p.Planned.Efficiency
	}
	eventually(t, "it learns", func() bool {
		return preview(4) == (api.EfficiencyNote{Percent: 50, Basis: "measured", Runs: 1})
	})
	if got := preview(2); got != (api.EfficiencyNote{Percent: 90, Basis: "estimated"}) {
		t.Errorf("2 nodes: %+v", got)
	}
	if asked.looked.Load() != 1 {
		t.Errorf("%d tasks were looked up", asked.looked.Load())
	}
	live := seedTask(2, "A100")
	live.Meta.Name, live.Meta.DisplayName = "live", "训练 3"
	commit(t, s, store.Create(live))
	var placed *api.Placement
	key := api.PlaceKey("p", live.Meta.ID)
	eventually(t, "it is placed", func() bool {
		o, err := s.Get(t.Context(), key, 0)
		if err == nil {
			placed = o.(*api.Placement)
		}
		return err == nil
	})
	o, err := s.Get(t.Context(), api.KeyOf(live), 0)
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, store.Update(ended(store.Clone(o.(*api.TrainingTask)), 62*time.Minute+30*time.Second)), store.Delete(key, placed.Meta.Revision))
	eventually(t, "it learns what ends now", func() bool {
		return preview(2) == (api.EfficiencyNote{Percent: 80, Basis: "measured", Runs: 1})
	})
}

// asking counts how many tasks were looked up.
type asking struct {
	placement.Past
	looked atomic.Int64
}

func (a *asking) UsageOf(ctx context.Context, id string) ([]history.UsageRow, error) {
	a.looked.Add(1)
	return a.Past.UsageOf(ctx, id)
}
