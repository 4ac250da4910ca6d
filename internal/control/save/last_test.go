package save

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// parted are two members of which these ended so; "": it runs.
func parted(ends ...string) *gang.Gang {
	s := persistedBy(0, 0)
	for i, end := range ends {
		m := &s.Members[i]
		m.State, m.Attached, m.Said.Generation, m.Said.Held, m.Said.Keeping.Ended = engine.StateRunning, true, 2, []int64{8, 9}, end
	}
	return s
}

func TestWhoMayGoAfterItsRanks(t *testing.T) {
	for name, c := range map[string]struct {
		s    *gang.Gang
		held int64 // by all
		want parting
	}{
		"all run":                          {parted("", ""), 9, nobodyParts},
		"all ended":                        {parted(engine.ReasonSucceeded, engine.ReasonSucceeded), 8, complete},
		"one is through, the other not":    {parted(engine.ReasonSucceeded, ""), 8, awaited},
		"both have what it has":            {parted(engine.ReasonSucceeded, ""), 9, complete},
		"a failure is not waited with":     {parted(engine.ReasonNonZero, ""), 8, complete},
		"one launcher was ended":           {parted(engine.ReasonStopped, ""), 8, complete},
		"all were told to end":             {halted(parted(engine.ReasonStopped, "")), 8, awaited},
		"one is lost":                      {bereaved(parted(engine.ReasonStopped, "")), 8, hopeless},
		"one is away for a moment":         {adrift(parted(engine.ReasonStopped, "")), 8, awaited},
		"one is of the next generation":    {advanced(parted(engine.ReasonStopped, "")), 8, hopeless},
		"nothing is kept of a deleted one": {erased(parted(engine.ReasonStopped, engine.ReasonStopped)), 9, hopeless},
	} {
		if got := partingOf(main(c.s), 2, c.held); got != c.want {
			t.Errorf("%s: %v instead of %v", name, got, c.want)
		}
	}
	if s := parted(engine.ReasonSucceeded, ""); !unkept(main(s), 2, false) || unkept(main(s), 2, true) {
		t.Error("who keeps nothing is not waited for, and who does is")
	}
	if s := parted(engine.ReasonSucceeded, ""); !s.Members.AnyEnded() {
		t.Error("another generation can't begin with a launcher that is about to go")
	}
}

func halted(s *gang.Gang) *gang.Gang   { s.Task.Spec.Stop = true; return s }
func bereaved(s *gang.Gang) *gang.Gang { s.Members[1].State = engine.StateExited; return s }
func adrift(s *gang.Gang) *gang.Gang   { s.Members[1].Attached = false; return s }
func advanced(s *gang.Gang) *gang.Gang { s.Members[1].Said.Generation = 3; return s }
func erased(s *gang.Gang) *gang.Gang   { s.Task.Meta.DeletedAt = &now; return s }

// TestWhatIsSaidOfTheLastStep: what was saved, or what was not and why.
func TestWhatIsSaidOfTheLastStep(t *testing.T) {
	s := parted(engine.ReasonSucceeded, engine.ReasonSucceeded)
	v := newSaving(2, 0, now)
	if v.lastEvent(main(s), 9, complete) != nil {
		t.Error("nothing was ordered, and it is told")
	}
	v.urgent = 9
	s.Members[1].Said.Persisted = []link.Persisted{{Tier: link.TierLocal, Generation: 2, Step: 9, Error: "the disk is full"}}
	if e := v.lastEvent(main(s), 9, complete); e == nil || !e.warning || !strings.Contains(e.message.EN, "Step 9") || !strings.Contains(e.message.ZH, "the disk is full") {
		t.Errorf("%+v", e)
	}
	v.settle(outcome{link.Committed{Tier: link.TierLocal, Generation: 2, Step: 9}, nil}, now)
	if e := v.lastEvent(main(s), 9, complete); e == nil || e.warning || !strings.Contains(e.message.EN, "Step 9 was persisted (local)") {
		t.Errorf("%+v", e)
	}
}

// TestTheLastStepIsDueAtOnce: on all tiers that lack it, and once.
func TestTheLastStepIsDueAtOnce(t *testing.T) {
	v := newSaving(2, 0, now)
	g := parted("", "")
	due := func(atOnce bool) *link.Persist {
		return turnOf(g, false).due(v, 9, func(string) bool { return atOnce })
	}
	if due(false) != nil {
		t.Error("it is not due")
	}
	p := due(true)
	if p == nil || p.Step != 9 || len(p.Tiers) != 2 {
		t.Fatalf("%+v", p)
	}
	v.last[link.TierLocal] = lastSave{step: 9, at: now}
	if p := due(true); p == nil || len(p.Tiers) != 1 || p.Tiers[0] != link.TierShared {
		t.Errorf("%+v", p)
	}
	if p := turnOf(g, true).due(v, 9, func(string) bool { return true }); p != nil {
		t.Errorf("the shared store is full: %+v", p)
	}
	g.Task.Spec.Checkpoint = &api.Checkpoints{Shared: &api.CheckpointTier{Disabled: true}}
	if p := due(true); p != nil {
		t.Errorf("%+v", p)
	}
}
