package rankset

import (
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// TestDormant: next to nothing is nothing; anything more, and what is printed, begins the time anew.
func TestDormant(t *testing.T) {
	i, now, s := Dormant{}, start, Sign{}
	look := func(want time.Duration, did func()) {
		t.Helper()
		now = now.Add(DormantTick)
		did()
		if got := i.Note(0, now, s); got != want {
			t.Errorf("it has done nothing for %v, want %v", got, want)
		}
	}
	look(0, func() {})
	look(DormantTick, func() {})
	look(2*DormantTick, func() { s.Ticks += 60; s.Bytes += dormantBytes }) // a hundredth of a core
	look(0, func() { s.Ticks += 61 })
	look(DormantTick, func() {})
	look(0, func() { s.Printed++ })
	look(0, func() { s.Bytes += dormantBytes + 1 })
	look(DormantTick, func() {})
	look(0, func() { s.Queue += uint64(time.Second) }) // it would have worked, had it had a processor
	look(0, func() { s.Ticks -= 100 })                 // a descendant ended
	if got := i.Note(1, now, Sign{Vitals: process.Vitals{Ticks: 5}}); got != 0 || i.Note(0, now.Add(DormantTick), s) != DormantTick {
		t.Error("one rank's time is the other's")
	}
}

// TestDormantRanksAreTold: once when all do nothing, and once when they do something again; who tells of steps is judged by them.
func TestDormantRanksAreTold(t *testing.T) {
	var told []link.Ranks
	r := New(Config{Ranks: 2, Clock: clock.NewFake(start), Tell: func(m link.Ranks) { told = append(told, m) }})
	r.Begin(link.Generation{Number: 1, Membership: link.Membership{World: 2}})
	r.Started(0)
	states := func(silent ...time.Duration) (out []link.RankState) {
		for rank, d := range silent {
			out = append(out, link.RankState{Rank: rank, State: 'S', Silent: d})
		}
		return out
	}
	told = nil
	for _, c := range []struct {
		name   string
		silent []time.Duration
		told   int // since the begin
		idle   int
	}{
		{"one works", []time.Duration{dormantAfter, dormantAfter - 1}, 0, 0},
		{"none does", []time.Duration{dormantAfter, dormantAfter}, 1, 2},
		{"still", []time.Duration{2 * dormantAfter, 2 * dormantAfter}, 1, 2},
		{"one works again", []time.Duration{2 * dormantAfter, 0}, 2, 0},
		{"one has ended", []time.Duration{3 * dormantAfter}, 3, 1},
		{"both have", nil, 4, 0},
	} {
		r.Hung(states(c.silent...), start)
		if len(told) != c.told || c.told > 0 && (len(told[len(told)-1].Hung) != c.idle || told[len(told)-1].Watched) {
			t.Fatalf("%s: told %d times, %+v", c.name, len(told), told)
		}
	}
	r.Hung(states(dormantAfter, dormantAfter), start)
	r.Progress.note(0, word.Word{Progress: &word.Progress{Step: 1}}, start)
	r.mu.Lock()
	r.report()
	r.mu.Unlock()
	if last := told[len(told)-1]; len(last.Hung) != 0 || !last.Watched {
		t.Errorf("who tells of steps: %+v", last)
	}
}
