package figure

import (
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/restored"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

var now = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

func TestAReloadIsKnownAsOne(t *testing.T) {
	for _, origin := range []*api.CheckpointOrigin{nil, {TaskID: "task-1", Name: "n", Step: 7}} {
		before := &api.TrainingTaskStatus{Phase: api.PhaseRecovering, Attempt: 1, Generation: 1}
		after := *before
		after.Generation, after.Rendezvous = before.Generation+1, &api.Rendezvous{Restore: 7, Origin: origin}
		f := Turn{Terms: gang.Terms{Task: &api.TrainingTask{Status: *before}}, Before: before, After: &after, Now: now}
		in := &api.Interruptions{Last: []api.Recovery{{RecoverySteps: api.RecoverySteps{Step: 9}, FailedAt: now, SeenAt: now}}}
		if f.advance(in, in.Newest()); in.Last[0].Reloaded != (origin != nil) || in.Last[0].Restore != 7 {
			t.Errorf("%+v", in.Last[0])
		}
	}
}

// TestTheNumberOfAnEntryIsNoStep: a script that writes over one file in its folder has an entry whose number is the time of its last change. That
// is never told as a step: neither where the recovery went on from, nor how far training is.
func TestTheNumberOfAnEntryIsNoStep(t *testing.T) {
	const entry = 1_795_032_355
	before := &api.TrainingTaskStatus{Phase: api.PhaseRecovering, Attempt: 1, Generation: 1}
	task := &api.TrainingTask{Spec: api.TrainingTaskSpec{Checkpoint: &api.Checkpoints{Folder: "out"}}, Status: *before}
	after := *before
	after.Generation, after.Phase, after.Rendezvous = 2, api.PhaseRunning, &api.Rendezvous{Restore: entry}
	m := gang.Member{Role: "worker", Said: link.Ranks{Generation: 2, Holding: link.Holding{Restored: engine.FromFolder}}}
	f := Turn{Terms: gang.Terms{Task: task}, Members: gang.Members{m}, Before: before, After: &after, Now: now}
	in := &api.Interruptions{Count: 1, Last: []api.Recovery{{RecoverySteps: api.RecoverySteps{Step: 504, Made: 504}, FailedAt: now, SeenAt: now}}}
	f.advance(in, in.Newest())
	r := in.Newest()
	if from := restored.From(r); r.Restore != 0 || from.EN != "from the script's own folder" || restored.Unknown(in) != 1 {
		t.Errorf("before its first step: %+v, %q, %d unknown", r, from.EN, restored.Unknown(in))
	}
	f.Members[0].Said.Step, f.Members[0].Said.SteppedAt, f.Members[0].Said.Pace.Course.First = 501, now, 501
	f.advance(in, r)
	if r.Restore != 500 || r.LostSteps == nil || *r.LostSteps != 4 || restored.Unknown(in) != 0 || r.EndedAt != nil {
		t.Errorf("after its first step: %+v", r)
	}
	task.Spec.Restore = &api.Rewind{Step: entry}
	if step := f.rewindsTo(); step != 1 {
		t.Errorf("it was asked to go on from an entry: step %d", step)
	}
}

// TestWhereTheStateCameFrom: as the generation was told, as its launchers say and, where the platform gave none, as the first step shows.
func TestWhereTheStateCameFrom(t *testing.T) {
	origin := &api.CheckpointOrigin{TaskID: "task-1", Name: "n", Step: 7}
	for name, c := range map[string]struct {
		told    api.Rendezvous
		said    [2]string
		instant string
		first   int64 // that they make; 0: the one behind what they were told
		want    string
		en      string
	}{
		"memory":                 {told: api.Rendezvous{Restore: 7}, want: restored.Memory, en: "from step 7 of memory"},
		"instant":                {told: api.Rendezvous{Restore: 7}, instant: "auto", want: restored.Instant, en: "from step 7 of an instant save in memory"},
		"a peer for one":         {told: api.Rendezvous{Restore: 7}, said: [2]string{"", engine.FromPeer}, instant: "auto", want: restored.Peer, en: "from step 7 of another node's memory"},
		"disks":                  {told: api.Rendezvous{Restore: 7, Origin: origin}, said: [2]string{link.TierLocal, link.TierLocal}, want: restored.Local, en: "from step 7 of the node's disk"},
		"the store for one":      {told: api.Rendezvous{Restore: 7, Origin: origin}, said: [2]string{link.TierLocal, link.TierShared}, want: restored.Shared, en: "from step 7 of the shared store"},
		"several for one":        {told: api.Rendezvous{Restore: 7, Origin: origin}, said: [2]string{link.TierLocal, ""}, want: restored.Shared, en: "from step 7 of the shared store"},
		"a newer one lies there": {told: api.Rendezvous{Restore: 7, Origin: origin}, said: [2]string{engine.FromFolder, engine.FromFolder}, first: 9, want: restored.Folder, en: "from step 8 of the script's own folder"},
		"nothing":                {told: api.Rendezvous{}, instant: "auto", want: restored.Beginning, en: "from the beginning"},
		"the script itself":      {told: api.Rendezvous{}, first: 5, want: restored.Script, en: "from step 4 of what the script itself had kept"},
	} {
		t.Run(name, func(t *testing.T) {
			before := &api.TrainingTaskStatus{Phase: api.PhaseRunning, Attempt: 1, Generation: 2, Rendezvous: &c.told}
			after := *before
			task := &api.TrainingTask{Spec: api.TrainingTaskSpec{Checkpoint: &api.Checkpoints{Instant: c.instant}}, Status: *before}
			f := Turn{Terms: gang.Terms{Task: task}, Before: before, After: &after, Now: now}
			first := c.first
			if first == 0 {
				first = c.told.Restore + 1
			}
			for i, said := range c.said {
				m := gang.Member{Role: "worker", Index: i, Said: link.Ranks{Generation: 2, Progress: link.Progress{Step: first, SteppedAt: now}, Holding: link.Holding{Restored: said}}}
				m.Said.Pace.Course.First = first
				f.Members = append(f.Members, m)
			}
			in := &api.Interruptions{Last: []api.Recovery{{RecoverySteps: api.RecoverySteps{Step: 20, Restore: c.told.Restore}, Generation: 2, FailedAt: now, SeenAt: now, OpenedAt: &now}}}
			f.advance(in, in.Newest())
			if got := &in.Last[0]; got.Source != c.want || restored.From(got).EN != c.en || restored.From(got).ZH == "" {
				t.Errorf("%s: %+v", got.Source, restored.From(got))
			}
		})
	}
}
