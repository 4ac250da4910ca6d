package train

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// parted are two members of which these ended so; "": it runs.
func parted(ends ...string) *seen {
	s := persistedSeen(0, 0)
	for i, end := range ends {
		m := &s.members[i]
		m.state, m.attached, m.said.Generation, m.said.Held, m.said.Keeping.Ended = engine.StateRunning, true, 2, []int64{8, 9}, end
	}
	return s
}

func TestWhoMayGoAfterItsRanks(t *testing.T) {
	for name, c := range map[string]struct {
		s    *seen
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
		if got := c.s.parting(2, c.held); got != c.want {
			t.Errorf("%s: %v instead of %v", name, got, c.want)
		}
	}
	if s := parted(engine.ReasonSucceeded, ""); !s.unkept(2, false) || s.unkept(2, true) {
		t.Error("who keeps nothing is not waited for, and who does is")
	}
	if s := parted(engine.ReasonSucceeded, ""); !s.anyEnded() {
		t.Error("another generation can't begin with a launcher that is about to go")
	}
}

func halted(s *seen) *seen   { s.task.Spec.Stop = true; return s }
func bereaved(s *seen) *seen { s.members[1].state = engine.StateExited; return s }
func adrift(s *seen) *seen   { s.members[1].attached = false; return s }
func advanced(s *seen) *seen { s.members[1].said.Generation = 3; return s }
func erased(s *seen) *seen   { s.task.Meta.DeletedAt = &now; return s }

// TestWhatIsSaidOfTheLastStep: what was saved, or what was not and why.
func TestWhatIsSaidOfTheLastStep(t *testing.T) {
	s := parted(engine.ReasonSucceeded, engine.ReasonSucceeded)
	v := newSaving(2, 0, now)
	if v.lastEvent(s, 9, complete) != nil {
		t.Error("nothing was ordered, and it is told")
	}
	v.urgent = 9
	s.members[1].said.Persisted = []link.Persisted{{Tier: link.TierLocal, Generation: 2, Step: 9, Error: "the disk is full"}}
	if e := v.lastEvent(s, 9, complete); e == nil || !e.warning || !strings.Contains(e.message.EN, "Step 9") || !strings.Contains(e.message.ZH, "the disk is full") {
		t.Errorf("%+v", e)
	}
	v.settle(outcome{link.Committed{Tier: link.TierLocal, Generation: 2, Step: 9}, nil}, now)
	if e := v.lastEvent(s, 9, complete); e == nil || e.warning || !strings.Contains(e.message.EN, "Step 9 was persisted (local)") {
		t.Errorf("%+v", e)
	}
}

// TestTheLastStepIsDueAtOnce: on all tiers that lack it, and once.
func TestTheLastStepIsDueAtOnce(t *testing.T) {
	c := &Controller{cfg: Config{Repo: memoryRepo(t)}}
	v := newSaving(2, 0, now)
	task := parted("", "").task
	later, atOnce := func(string) bool { return false }, func(string) bool { return true }
	if c.due(t.Context(), task, v, 9, now, later) != nil {
		t.Error("it is not due")
	}
	p := c.due(t.Context(), task, v, 9, now, atOnce)
	if p == nil || p.Step != 9 || len(p.Tiers) != 2 {
		t.Fatalf("%+v", p)
	}
	v.last[link.TierLocal] = lastSave{step: 9, at: now}
	if p := c.due(t.Context(), task, v, 9, now, atOnce); p == nil || len(p.Tiers) != 1 || p.Tiers[0] != link.TierShared {
		t.Errorf("%+v", p)
	}
	task.Spec.Checkpoint = &api.Checkpoints{Shared: &api.CheckpointTier{Disabled: true}}
	if p := c.due(t.Context(), task, v, 9, now, atOnce); p != nil {
		t.Errorf("%+v", p)
	}
}

func memoryRepo(t *testing.T) func(string, string) (*ckpt.Repo, error) {
	store, err := folder.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return func(tier, taskID string) (*ckpt.Repo, error) {
		return ckpt.New(ckpt.Config{Store: store, Prefix: tier + taskID})
	}
}
