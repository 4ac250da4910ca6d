package rankset

import (
	"fmt"
	"testing"

	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// TestTheStallIsOfTheSlowestRank: the first save of a rank, which makes room, does not count once there is another.
func TestTheStallIsOfTheSlowestRank(t *testing.T) {
	r := newSet(2, func(link.Ranks) {})
	r.Begin(link.Generation{Number: 1, Membership: link.Membership{World: 2}})
	step := int64(0)
	stalls := func(local int, seconds float64) float64 {
		step++
		w, err := word.Parse(fmt.Appendf(nil, `{"progress":{"step":%d,"t":0.1,"metrics":{"save_stall":%g}}}`, step, seconds))
		if err != nil {
			t.Fatal(err)
		}
		r.take(local, w)
		return r.said.Saves.Stall
	}
	for _, c := range []struct {
		local         int
		stalled, want float64
	}{{0, 0, 0}, {0, 4, 4}, {0, 1, 1}, {1, 3, 3}, {0, 9, 4}, {1, -1, 4}, {0, 1, 3}} {
		if got := stalls(c.local, c.stalled); got != c.want {
			t.Errorf("%+v: %g", c, got)
		}
	}
	for range 3 * stallsKept {
		stalls(0, 2)
	}
	if len(r.cost.stalls[0]) != stallsKept || r.said.Saves.Stall != 3 {
		t.Errorf("%v, %g", r.cost.stalls[0], r.said.Saves.Stall)
	}
}

// TestRanksHearTheInterval: those that run when it changes, and who comes later; a late word of an earlier generation is none.
func TestRanksHearTheInterval(t *testing.T) {
	var told link.Ranks
	r := newSet(1, func(said link.Ranks) { told = said })
	r.Begin(link.Generation{Number: 2, Membership: link.Membership{World: 1}})
	heard := func(c *rankConn) int64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.out.interval == nil {
			return -1
		}
		return c.out.interval.Steps
	}
	early := &rankConn{wake: make(chan struct{}, 1)}
	r.Conns.list[early] = struct{}{}
	r.Order(link.Generation{Number: 1, Every: 7})
	if got := heard(early); got != -1 || told.Every != 0 {
		t.Errorf("told %d by an earlier generation", got)
	}
	r.Order(link.Generation{Number: 2, Every: 40})
	if got := heard(early); got != 40 || told.Every != 40 {
		t.Errorf("%d, and the leader knows of %d", got, told.Every)
	}
	late := &rankConn{wake: make(chan struct{}, 1)}
	if _, ok := r.join(late, &word.Hello{Generation: 2}); !ok || heard(late) != 40 {
		t.Error("who comes late does not hear of it")
	}
	if line := string(word.Answer{Interval: &word.Interval{Steps: 40}}.Line()); line != "{\"interval\":{\"steps\":40}}\n" {
		t.Error(line)
	}
}
