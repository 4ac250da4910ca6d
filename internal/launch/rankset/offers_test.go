package rankset

import (
	"fmt"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/link"
)

// TestOffers: ranks that skipped different saves hold no step in common; each gives up what it is answered
// for, and the next step that both save is the watermark. While the leader may choose, nothing is given up.
func TestOffers(t *testing.T) {
	r := newSet(2, func(link.Ranks) {})
	r.Begin(link.Generation{Number: 1, Membership: link.Membership{World: 2}})
	var sides []*rankSide
	for i := range 2 {
		s := connect(t, r)
		s.say(fmt.Sprintf(`{"hello":{"pid":1,"rank":%d,"generation":1,"version":"x"}}`, i))
		if got := s.hear(); got != `{"welcome":{"generation":1,"restore":null,"offers":true}}` {
			t.Error(got)
		}
		s.say(`{"held":{"steps":[]}}`)
		for k := range 3 {
			s.say(fmt.Sprintf(`{"saved":{"step":%d,"bytes":1,"seconds":0}}`, 1+i+2*k))
		}
		sides = append(sides, s)
	}
	a, b := sides[0], sides[1]
	a.say(`{"held":{"steps":[]}}`)
	if got := a.hear(); got != `{"watermark":{"step":0,"held":true}}` {
		t.Error(got)
	}
	r.freezes(1, true, false)
	b.say(`{"held":{"steps":[]}}`)
	b.say(`{"saved":{"step":7,"bytes":1,"seconds":0}}`) // heard after the offer
	eventually(t, "the offer is noted", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.hold.offers[1] != nil && len(r.hold.held[1]) == 4
	})
	a.say(`{"saved":{"step":4,"bytes":1,"seconds":0}}`) // what b has not given up yet
	eventually(t, "a saved it", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.hold.held[0]) == 1
	})
	r.freezes(1, false, false)
	got := b.hear()
	if got == `{"watermark":{"step":4}}` { // it may be told of both in turn
		got = b.hear()
	}
	if got != `{"watermark":{"step":4,"held":true}}` {
		t.Error(got)
	}
	if got := a.hear(); got != `{"watermark":{"step":4}}` {
		t.Error(got)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if got := fmt.Sprint(r.hold.held); got != "[[4] [2 4 7]]" {
		t.Error(got)
	}
}

// TestOffersElsewhere: where other launchers' ranks count, what is offered is told to the leader as not held any more, and given up
// only once the leader knows, with the watermark it had decided before.
func TestOffersElsewhere(t *testing.T) {
	told := make(chan link.Ranks, 100)
	r := newSet(1, func(s link.Ranks) { told <- s })
	r.Begin(link.Generation{Number: 1, Membership: link.Membership{World: 2}})
	r.Started(4000)
	a := connect(t, r)
	a.say(`{"hello":{"pid":1,"rank":0,"generation":1,"version":"x"}}`)
	if got := a.hear(); got != `{"welcome":{"generation":1,"restore":null,"offers":true}}` {
		t.Error(got)
	}
	a.say(`{"held":{"steps":[]}}`)
	for _, step := range []int{1, 3, 5} {
		a.say(fmt.Sprintf(`{"saved":{"step":%d,"bytes":1,"seconds":0}}`, step))
	}
	next := func(what string, enough func(link.Ranks) bool) (s link.Ranks) {
		t.Helper()
		for deadline := time.After(time.Minute); ; {
			select {
			case s = <-told:
				if enough(s) {
					return s
				}
			case <-deadline:
				t.Fatal("never told: " + what)
			}
		}
	}
	next("all three", func(s link.Ranks) bool { return len(s.Held) == 3 })
	r.Watermark(link.Watermark{Generation: 1, Step: 1})
	if got := a.hear(); got != `{"watermark":{"step":1}}` {
		t.Error(got)
	}
	a.say(`{"held":{"steps":[1]}}`)
	offer := next("the offer", func(s link.Ranks) bool { return s.Offer > 0 })
	if fmt.Sprint(offer.Held) != "[1]" || offer.Mark != 1 {
		t.Errorf("%+v", offer)
	}
	r.Watermark(link.Watermark{Generation: 1, Step: 3}) // decided before the leader knew
	if got := a.hear(); got != `{"watermark":{"step":3}}` {
		t.Error(got)
	}
	r.freezes(1, true, false)
	r.Watermark(link.Watermark{Generation: 1, Step: 3, Seen: offer.Offer}) // it may be about to choose
	r.freezes(1, false, false)
	if got := a.hear(); got != `{"watermark":{"step":3,"held":true}}` {
		t.Error(got)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if got := fmt.Sprint(r.hold.held); got != "[[1 3]]" {
		t.Error(got)
	}
}
