package placement_test

import (
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/sched/advice"
)

// TestZoneRules: what the rules on zones, hours and data mean for a preview and for a task that waits.
func TestZoneRules(t *testing.T) {
	s, c := demo(t, func(zones []api.Zone) {
		for i := range zones { // a tenth of the price from three hours after now on, for four hours
			from := time.Now().UTC().Add(11 * time.Hour)
			zones[i].Spec.UTCOffset = "+08:00"
			zones[i].Spec.Price.Windows = []api.PriceWindow{{From: from.Format("15:04"), To: from.Add(4 * time.Hour).Format("15:04"), Factor: 0.1}}
		}
		zones[2].Spec.BandwidthGbps = map[string]float64{"beijing-1": 80}
	})
	sturdy := seedTask(4, "A100")
	sturdy.Spec.Zones = &api.ZoneRules{SurviveZoneLoss: true, SameRegion: api.RegionRequire}
	p := look(t, c, sturdy)
	if !p.Fits || len(p.Planned.Zones) != 2 || p.Planned.Zones[0].Region != p.Planned.Zones[1].Region {
		t.Fatalf("%+v", p)
	}
	for _, z := range p.Planned.Zones {
		if z.LossLeaves != 2 || z.Replicas != 2 {
			t.Errorf("%+v", z)
		}
	}
	sturdy.Spec.Zones.Allow = []string{"beijing-1", "shanghai-1"}
	if p := look(t, c, sturdy); p.Fits || p.Reason != advice.ReasonSurvive { // two regions, and one zone in each
		t.Errorf("%+v", p)
	}

	far := seedTask(1, "A100")
	far.Spec.Zones = &api.ZoneRules{Allow: []string{"shanghai-1"}, Data: []api.DataPlace{{Bytes: 1e12, Zones: []string{"beijing-1"}}}}
	if p := look(t, c, far); p.Planned.Moving.Std() != 100*time.Second {
		t.Errorf("moving 1 TB at 80 Gbit/s: %s", p.Planned.Moving)
	}
	far.Spec.Zones.Allow = nil
	if p := look(t, c, far); p.Planned.Moving != 0 || p.Planned.Zones[0].Zone != "beijing-1" {
		t.Errorf("%+v", p.Planned)
	}

	later := seedTask(1, "A100")
	later.Spec.Queue, later.Spec.Deferrable, later.Spec.ExpectedTime = "q", api.DeferCheap, api.Duration(time.Hour)
	p = look(t, c, later)
	if wait := time.Until(*p.Start); p.Fits || p.Reason != advice.ReasonWindow || p.StartBasis != "predicted" || wait < 2*time.Hour || wait > 3*time.Hour {
		t.Fatalf("%+v", p)
	}
	commit(t, s, store.Create(later))
	eventually(t, "the planner says what it waits for", func() bool {
		why, ok := c.Why(later.Meta.ID)
		return ok && why.Reason == advice.ReasonWindow && strings.Contains(why.Message.EN, "¥80.80 if it started now, ¥8.08")
	})
	due := store.Clone(later)
	o, err := s.Get(t.Context(), api.KeyOf(later), 0)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(2 * time.Hour)
	due.Meta.Revision, due.Spec.Deadline = o.GetMeta().Revision, &deadline
	commit(t, s, store.Update(due))
	eventually(t, "a deadline before the window lets it start", func() bool {
		_, err := s.Get(t.Context(), api.PlaceKey(later.Meta.Project, later.Meta.ID), 0)
		return err == nil
	})
}
