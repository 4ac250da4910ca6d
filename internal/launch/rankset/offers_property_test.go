package rankset

import (
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// offering is a rank alone in its launcher, with three slots, as the SDK has it; its launcher is the real one.
type offering struct {
	r       *Set
	conn    *rankConn
	slots   [3]int64 // 0: empty
	mark    int64
	skips   int
	offered []int64
	apart   int64 // one save in so many
	low     int64

	mu   sync.Mutex
	said link.Ranks      // the newest, as its client would send it to a server that it reaches
	mail *link.Watermark // on its way to it; a newer one takes its place
}

func newOffering(world, rank int) *offering {
	o := &offering{conn: &rankConn{wake: make(chan struct{}, 1), of: 1}}
	o.r = newSet(1, func(s link.Ranks) {
		o.mu.Lock()
		defer o.mu.Unlock()
		s.Mark = max(s.Mark, o.said.Mark)
		o.said = s
	})
	o.r.Begin(link.Generation{Number: 1, Membership: link.Membership{FirstRank: rank, World: world}})
	o.r.Started(1)
	o.r.Conns.list[o.conn] = struct{}{}
	return o
}

// hear acts on what the launcher has said to the rank since.
func (o *offering) hear() {
	o.conn.mu.Lock()
	out := o.conn.out
	o.conn.out = rankOutbox{}
	o.conn.mu.Unlock()
	o.mark = max(o.mark, out.watermark)
	if !out.held {
		return
	}
	for i, step := range o.slots {
		if step > o.mark && slices.Contains(o.offered, step) {
			o.slots[i] = 0
		}
	}
	o.offered = nil
	if o.mark == o.low {
		o.apart = max(2*o.apart, 16)
	}
}

// save is what a rank does after a step.
func (o *offering) save(step int64) {
	if o.mark != o.low {
		o.apart = 0
	}
	if o.apart > 0 && step%o.apart != 0 {
		return
	}
	for i, old := range o.slots {
		if old == 0 || old < o.mark {
			o.slots[i], o.skips = step, 0
			o.r.take(0, word.Word{Saved: &word.Saved{Step: step}})
			return
		}
	}
	if o.skips++; o.skips < 4 || len(o.offered) > 0 {
		return
	}
	kept := []int64{}
	o.low = o.mark
	for _, old := range o.slots {
		if old <= o.mark {
			kept = append(kept, old)
		} else {
			o.offered = append(o.offered, old)
		}
	}
	slices.Sort(kept)
	o.r.take(0, word.Word{Held: &word.Held{Steps: kept}})
}

// deliver is the launcher's part of a watermark.
func (o *offering) deliver() {
	if o.mail == nil {
		return
	}
	w := *o.mail
	o.mail = nil
	o.mu.Lock()
	o.said.Mark = max(o.said.Mark, w.Step) // link.Client.marked
	o.mu.Unlock()
	o.r.Watermark(w)
}

// TestWhatIsGivenUpIsNeededByNobody: ranks save, skip and offer while leaders come and go and words are late or lost. Whatever any rank was
// told of as the watermark, all ranks hold; and once all can talk, new steps become whole everywhere again.
func TestWhatIsGivenUpIsNeededByNobody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world := make([]*offering, rapid.IntRange(2, 4).Draw(t, "ranks"))
		for i := range world {
			world[i] = newOffering(len(world), i)
		}
		known := make([]*link.Ranks, len(world)) // by the leader
		var high int64                           // that it told
		report := func(i int) {
			o := world[i]
			o.r.mu.Lock()
			o.r.report()
			o.r.mu.Unlock()
			o.mu.Lock()
			said := o.said
			o.mu.Unlock()
			known[i] = &said
		}
		lead := func() { // as control/save's watermark and tellUnit
			var held [][]int64
			var step int64
			for _, k := range known {
				if k == nil {
					return
				}
				held, step = append(held, k.Held), max(step, k.Mark)
			}
			for _, s := range held[0] {
				if !slices.ContainsFunc(held, func(h []int64) bool { return !slices.Contains(h, s) }) {
					step = max(step, s)
				}
			}
			high = max(high, step)
			for i, o := range world {
				if step = high; step > 0 || known[i].Offer > 0 {
					o.mail = &link.Watermark{Generation: 1, Step: step, Seen: known[i].Offer}
				}
			}
		}
		check := func() {
			var told int64
			for _, o := range world {
				told = max(told, o.mark)
			}
			for i, o := range world {
				if told > 0 && !slices.Contains(o.slots[:], told) {
					t.Fatalf("step %d is the watermark, and rank %d holds %v", told, i, o.slots)
				}
			}
		}
		step := int64(0)
		for range rapid.IntRange(1, 400).Draw(t, "turns") {
			i := rapid.IntRange(0, len(world)-1).Draw(t, "who")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1, 2:
				step++
				for j, o := range world {
					if rapid.IntRange(0, 9).Draw(t, "saves") > 0 || j == i { // a slot may be read just now
						o.save(step)
					}
				}
			case 3, 4:
				report(i)
			case 5:
				lead()
			case 6:
				world[i].deliver()
			case 7, 8:
				world[i].hear()
			case 9: // another leader: what was on its way is lost
				clear(known)
				high = 0
				for _, o := range world {
					o.mail = nil
				}
			}
			check()
		}
		last, well := int64(0), step
		for range 4000 { // all is well
			if last > well {
				return
			}
			step++
			for i, o := range world {
				o.hear()
				o.save(step)
				report(i)
			}
			lead()
			for _, o := range world {
				o.deliver()
				o.hear()
				last = max(last, o.mark)
			}
			check()
		}
		t.Fatalf("step %d, and nothing after %d is whole everywhere", step, last)
	})
}
