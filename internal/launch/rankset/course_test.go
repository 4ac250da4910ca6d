package rankset

import (
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// TestACourseTellsHowRanksGotOn: the first step, how long they stood still, and that an announced pause is no stall.
func TestACourseTellsHowRanksGotOn(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	p := newProgress(1, false)
	p.begin(link.Generation{Number: 1}, nil, now)
	p.started(now)
	told := func() link.Course {
		var said link.Ranks
		p.fill(&said)
		return said.Pace.Course
	}
	step := func(n int64, after time.Duration) {
		now = now.Add(after)
		w := &word.Progress{Step: n}
		p.note(0, word.Word{Progress: w}, now)
		p.advance(0, w)
	}
	for n := int64(501); n <= 510; n++ {
		step(n, time.Second)
	}
	if c := told(); c.First != 501 || c.Stalled != 0 || !c.LastAt.Equal(now) || c.Patience != courseLeast {
		t.Fatalf("%+v", c)
	}
	phase := func(on bool, after time.Duration) {
		now = now.Add(after)
		p.note(0, word.Word{Phase: &word.Phase{Name: "eval", On: on}}, now)
	}
	phase(true, time.Second)
	if !told().Pausing {
		t.Error("a pause is not told")
	}
	phase(false, time.Minute)
	step(511, time.Second)
	if c := told(); c.Stalled != 0 || c.Pausing {
		t.Errorf("a pause that was announced counts as a stall: %+v", c)
	}
	p.Slept(time.Minute) // the launcher was stopped with them
	step(512, time.Minute)
	if c := told(); c.Stalled != time.Minute {
		t.Errorf("a stall is not told: %+v", c)
	}
	p.begin(link.Generation{Number: 2, States: link.States{Restore: 500}}, nil, now)
	if c := told(); c.First != 0 || c.Stalled != 0 {
		t.Errorf("of the generation before: %+v", c)
	}
	step(1, time.Second) // whatever it was told to go on from
	if c := told(); c.First != 1 || !p.allStepped() {
		t.Errorf("%+v", c)
	}
}

// TestWhatIsPrintedIsNoStepWhereItIsAnEpoch: such a rank lives, and nothing is known of how far or how fast it is.
func TestWhatIsPrintedIsNoStepWhereItIsAnEpoch(t *testing.T) {
	var said link.Ranks
	r := New(Config{Ranks: 1, Tell: func(s link.Ranks) { said = s }})
	r.Begin(link.Generation{Number: 1})
	r.Started(0)
	now := func() link.Ranks {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.report()
		return said
	}
	p := &Printed{Tell: func(s PrintedStep) bool { return r.Printed(0, s, 1) }}
	for _, line := range []string{"Epoch 1/10\n", "Epoch 2/10\n", "Epoch 3/10\n", "{'loss': 1.5, 'epoch': 0.02}\n", "{'loss': 1.4, 'epoch': 0.04}\n"} {
		p.Feed(nil, []byte(line))
		p.look()
	}
	if said := now(); said.Step != 0 || said.Pace.Steps != 0 || said.Pace.Course.First != 0 || !said.Watched || !said.Printed {
		t.Errorf("%+v", said)
	}
	for _, line := range []string{" 50%| | 500/1000 [00:01<00:99, 1it/s]\n", " 50%| | 507/1000 [00:01<00:99, 1it/s]\n"} { // a bar takes over at once
		p.Feed(nil, []byte(line))
		p.look()
	}
	if said := now(); said.Step != 507 || said.Pace.Course.First != 501 {
		t.Errorf("step %d, the first %d", said.Step, said.Pace.Course.First)
	}
}

// TestTheNumberOfAnEntryIsNoStep: ranks that save to a folder are nowhere before they tell a step, whatever the entry's number.
func TestTheNumberOfAnEntryIsNoStep(t *testing.T) {
	for _, files := range []bool{false, true} {
		var said link.Ranks
		r := New(Config{Ranks: 1, Files: files, Tell: func(s link.Ranks) { said = s }})
		r.Begin(link.Generation{Number: 2, Membership: link.Membership{World: 1}, States: link.States{Restore: 1_795_032_355}})
		r.Started(0)
		want := int64(1_795_032_355)
		if files {
			want = 0
		}
		if said.Step != want || !said.SteppedAt.IsZero() {
			t.Errorf("files %v, before a step: %+v", files, said)
		}
		if !files {
			continue
		}
		for _, step := range []int64{501, 502} {
			r.mu.Lock()
			r.hear(0, word.Word{Progress: &word.Progress{Step: step, T: 0.5}})
			r.mu.Unlock()
		}
		r.Report.Drained()
		if said.Step != 502 || said.SteppedAt.IsZero() || said.Pace.Steps != 2 || said.Pace.Seconds != 1 {
			t.Errorf("%+v", said)
		}
	}
}
