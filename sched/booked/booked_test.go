package booked

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/booking"
)

var begin = time.Date(2026, 11, 20, 22, 0, 0, 0, time.UTC)

func spec(projects ...string) *booking.BookingSpec {
	return &booking.BookingSpec{From: begin, To: begin.Add(4 * time.Hour), Notice: api.Duration(24 * time.Hour), Projects: projects}
}

func TestKeeps(t *testing.T) {
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		b    *booking.BookingSpec
		w    Work
		at   time.Duration // after its begin
		want bool
	}{
		"ends in time":                   {spec(), Work{Project: "a", Ends: time.Hour}, -time.Hour, false},
		"would run into it":              {spec(), Work{Project: "a", Ends: 2 * time.Hour}, -time.Hour, true},
		"would run into it, in a week":   {spec(), Work{Project: "a", Ends: 8 * day}, -7 * day, true},
		"may be moved":                   {spec(), Work{Project: "a", Moves: true}, -time.Minute, false},
		"of unknown length, in a week":   {spec(), Work{Project: "a"}, -7 * day, false},
		"of unknown length, within 24 h": {spec(), Work{Project: "a"}, -day, true},
		"while it lasts":                 {spec(), Work{Project: "a", Ends: time.Minute, Moves: true}, 0, true},
		"of its project, before":         {spec("a"), Work{Project: "a"}, -time.Minute, false},
		"of its project, while it lasts": {spec("b", "a"), Work{Project: "a"}, time.Hour, false},
		"of another, while it lasts":     {spec("a"), Work{Project: "b", Moves: true}, time.Hour, true},
		"after it":                       {spec(), Work{Project: "a"}, 4 * time.Hour, false},
	} {
		if got := Keeps(c.b, c.w, begin.Add(c.at)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestNobodyMeets: work that is let in and ends when it said is gone when a booking begins, and who may move is asked to then. What Next says is
// never later than the next change of the judgement by phase.
func TestNobodyMeets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := spec(rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b"}), rapid.ID[string]).Draw(t, "projects")...)
		now := begin.Add(time.Duration(rapid.IntRange(-72*60, 10*60).Draw(t, "now")) * time.Minute)
		w := Work{Project: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "project"), Ends: time.Duration(rapid.IntRange(1, 6000).Draw(t, "ends")) * time.Minute}
		if !Keeps(b, w, now) && now.Before(b.From) && Leaves(b, w.Project, begin) && now.Add(w.Ends).After(b.From) {
			t.Fatal("it was let in and is there when the booking begins")
		}
		if Leaves(b, w.Project, now) && !Keeps(b, w, now) {
			t.Fatal("it has to leave and may come back")
		}
		next := Next(b, now)
		if next.IsZero() != (b.PhaseAt(now) == booking.Over) || !next.IsZero() && !next.After(now) {
			t.Fatalf("%s: %s", now, next)
		}
		if !next.IsZero() && b.PhaseAt(now) != b.PhaseAt(next.Add(-1)) {
			t.Fatal("a phase began unseen")
		}
	})
}
