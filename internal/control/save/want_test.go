package save

import (
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/link"
)

// TestWhatRanksWaitForIsDueOrDenied: due in the tier that they name, or in the nearest; denied where there is none, and
// where it came to nothing.
func TestWhatRanksWaitForIsDueOrDenied(t *testing.T) {
	asks := func(tier string, keep *api.Checkpoints) *gang.Gang {
		s := parted("", "")
		s.Task.Spec.Checkpoint = keep
		s.Members[1].Said.Keeping.Wants = []link.Want{{Tier: tier, Step: 9}}
		return s
	}
	off := &api.CheckpointTier{Disabled: true}
	for name, one := range map[string]struct {
		s   *gang.Gang
		due string
	}{
		"the nearest":          {asks("", nil), link.TierLocal},
		"the nearest there is": {asks("", &api.Checkpoints{Local: off}), link.TierShared},
		"none there is":        {asks("", &api.Checkpoints{Local: off, Shared: off}), ""},
		"by name":              {asks(link.TierShared, nil), link.TierShared},
		"one that is off":      {asks(link.TierShared, &api.Checkpoints{Shared: off}), ""},
	} {
		due, denied := turnOf(one.s, false).sight.wanted(main(one.s), newSaving(2, 0, now))
		if (one.due == "") != (len(denied) == 1) || one.due != "" && due[one.due] != 9 {
			t.Errorf("%s: %v %v", name, due, denied)
		}
	}
	v, s := newSaving(2, 0, now), asks("", nil)
	v.last[link.TierLocal] = lastSave{step: 9, at: now} // it was tried
	if due, denied := turnOf(s, false).sight.wanted(main(s), v); len(due) > 0 || len(denied) != 1 {
		t.Errorf("%v %v", due, denied)
	}
	v.committed[link.TierLocal] = link.Committed{Tier: link.TierLocal, Generation: 2, Step: 9}
	if due, denied := turnOf(s, false).sight.wanted(main(s), v); len(due)+len(denied) > 0 {
		t.Errorf("%v %v", due, denied)
	}
	s.Task.Status.Rendezvous.Restore = 9
	if _, denied := turnOf(s, false).sight.wanted(main(s), newSaving(2, 9, now)); len(denied) != 1 {
		t.Errorf("%v", denied)
	}
	if d := denyAll(s.Members); len(d) != 1 || d[0].Step != 9 {
		t.Errorf("%v", d)
	}
}
