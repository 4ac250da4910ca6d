package rankset

import (
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

func TestPaceIsOfStepsWhoseTimeIsKnown(t *testing.T) {
	var sum link.Pace
	report := func(t float64, steps int64, metrics map[string]float64) {
		addPace(&sum, &word.Progress{T: t, Metrics: metrics}, steps)
	}
	report(0, 1, map[string]float64{"samples": 1000}) // the first
	report(0.5, 2, map[string]float64{"samples": 64, "tokens": 10, "parameters": 100, "data_wait": 0.25})
	report(0.5, 1, map[string]float64{"samples": -5, "tokens": 10, "flops": 7, "parameters": 100})
	report(0.5, 0, map[string]float64{"samples": 1000}) // the same step again
	if want := (link.Pace{Steps: 3, Seconds: 1.5, Samples: 64, Tokens: 20, Flops: 6007, Waited: 0.25}); sum != want {
		t.Errorf("%+v, not %+v", sum, want)
	}
}

// TestLossScaleIsTheNewest: it is told from the first report on, and what is none counts for nothing.
func TestLossScaleIsTheNewest(t *testing.T) {
	var sum link.Pace
	report := func(t float64, scale, skipped float64) {
		addPace(&sum, &word.Progress{T: t, Metrics: map[string]float64{"loss_scale": scale, "skipped_steps": skipped}}, 1)
	}
	report(0, 65536, 0)
	if want := (link.Pace{Scale: 65536}); sum != want {
		t.Errorf("%+v, not %+v", sum, want)
	}
	report(0.5, 32768, 1)
	report(0.5, 16384, 2)
	report(0.5, 32768, 1) // another rank, a step behind
	report(0.5, -1, 7)
	if want := (link.Pace{Steps: 4, Seconds: 2, Scale: 32768, Skipped: 2}); sum != want {
		t.Errorf("%+v, not %+v", sum, want)
	}
}

// TestSavesAreCounted: one that is never whole was begun all the same; what came from elsewhere was not.
func TestSavesAreCounted(t *testing.T) {
	var told link.Ranks
	r := newSet(1, func(said link.Ranks) { told = said })
	r.Begin(link.Generation{Number: 1, Membership: link.Membership{World: 1}})
	say := func(line string) {
		t.Helper()
		w, err := word.Parse([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		r.take(0, w)
	}
	say(`{"saved":{"step":1}}`) // of a peer
	say(`{"saving":{"step":2}}`)
	say(`{"saved":{"step":2}}`)
	say(`{"saved":{"step":2}}`)
	say(`{"saving":{"step":3}}`)
	r.Begin(link.Generation{Number: 2, Membership: link.Membership{World: 1}, States: link.States{Restore: 2}}) // it died meanwhile
	say(`{"saved":{"step":3}}`)
	r.Started(1)
	if told.Saves != (link.Saves{Begun: 2, Whole: 1}) {
		t.Errorf("%+v", told.Saves)
	}
	if _, err := word.Parse([]byte(`{"saving":{"step":0}}`)); err == nil {
		t.Error("a save of no step")
	}
}

// TestUseIsOfTheGeneration: what was spent before it does not count, nor does a reading out of bounds.
func TestUseIsOfTheGeneration(t *testing.T) {
	r := newSet(1, func(link.Ranks) {})
	began := time.Unix(100, 0)
	m := &Meter{began: began, spent: 7 * time.Second}
	m.Note(r.Report, link.Usage{CPU: 17 * time.Second, RSS: 5, At: began.Add(5 * time.Second)})
	(*Meter)(nil).Note(r.Report, link.Usage{CPU: time.Hour, At: began.Add(time.Hour)}) // inside another
	r.Report.Uses(func(use *link.Use) {
		AddReadings(use, []engine.Reading{{Busy: 2, Used: 3, Total: 9}, {Busy: 0.5, Used: 1, Total: 9}}, 10*time.Second)
		AddReadings(use, []engine.Reading{{Used: 4, Total: 9}, {Total: 9}}, 10*time.Second)
	})
	if want := (link.Use{CPU: 10, Seconds: 5, Memory: 5, Devices: 2, Busy: 15, Watched: 40, DeviceMemory: 4, DeviceTotal: 18}); r.Report.facts.use != want {
		t.Errorf("%+v", r.Report.facts.use)
	}
	r.Begin(link.Generation{Number: 2, Membership: link.Membership{World: 1}})
	if r.Report.facts.use != (link.Use{}) {
		t.Errorf("%+v", r.Report.facts.use)
	}
}
