package launch

import (
	"fmt"
	"testing"

	"github.com/fermi-cluster/fermi/internal/link"
)

// TestOffers: ranks that skipped different saves hold no step in common; each gives up what it is answered
// for, and the next step that both save is the watermark. While the leader may choose, nothing is given up.
func TestOffers(t *testing.T) {
	r := newRanks(2, func(link.Ranks) {})
	r.begin(link.Generation{Number: 1, World: 2})
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
	r.freeze(1, true)
	b.say(`{"held":{"steps":[]}}`)
	b.say(`{"saved":{"step":7,"bytes":1,"seconds":0}}`) // heard after the offer
	eventually(t, "the offer is noted", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.offers[1] != nil && len(r.held[1]) == 4
	})
	a.say(`{"saved":{"step":4,"bytes":1,"seconds":0}}`) // what b has not given up yet
	eventually(t, "a saved it", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.held[0]) == 1
	})
	r.freeze(1, false)
	if got := b.hear(); got != `{"watermark":{"step":4,"held":true}}` {
		t.Error(got)
	}
	if got := a.hear(); got != `{"watermark":{"step":4}}` {
		t.Error(got)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if got := fmt.Sprint(r.held); got != "[[4] [2 4 7]]" {
		t.Error(got)
	}
}
