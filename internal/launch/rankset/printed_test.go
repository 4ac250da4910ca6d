package rankset

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// heardSteps collects what a rank was found to have printed.
type heardSteps struct {
	mu    sync.Mutex
	steps []int64
	last  bool
}

func (h *heardSteps) tell(said PrintedStep) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps, h.last = append(h.steps, said.Step), said.Last
	return true
}

func (h *heardSteps) newest() (int64, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.steps) == 0 {
		return 0, false
	}
	return h.steps[len(h.steps)-1], h.last
}

// TestPrintedSteps: lines that come in pieces, bars that are drawn over, floods.
func TestPrintedSteps(t *testing.T) {
	for name, c := range map[string]struct {
		pieces []string
		step   int64
		last   bool
	}{
		"in pieces":    {[]string{"step 1\nst", "ep 1", "2 loss 0.5\n"}, 12, false},
		"not ended":    {[]string{"step 1\nstep 2\nstep 3"}, 2, false},
		"a bar":        {[]string{"\r 1%| | 1/100 [00:01<00:99, 1it/s]", "\r 2%| | 2/100 [00:02<00:98, 1it/s]", "\r 3%| | 3/100 [00:03<00:97, 1it/s]"}, 2, false},
		"its end":      {[]string{"\r 1%| | 1/2 [00:01<00:99, 1it/s]", "\r 2%| | 2/2 [00:02<00:00, 1it/s]\n"}, 2, true},
		"a long piece": {[]string{"step 7\n", string(make([]byte, 1<<20)) + "\nstep 8\n"}, 8, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := &heardSteps{}
			p := &Printed{Tell: h.tell}
			var part []byte
			for _, piece := range c.pieces {
				part = p.Feed(part, []byte(piece))
			}
			p.look()
			if step, last := h.newest(); step != c.step || last != c.last {
				t.Errorf("step %d, last %v", step, last)
			}
			if len(part) > 4<<10 || cap(p.lines) > 64 {
				t.Errorf("%d bytes and %d lines are kept", len(part), cap(p.lines))
			}
		})
	}
}

// ranksOf is two ranks of the first generation; what they tell is the newest.
func ranksOf(told *link.Ranks) *Set {
	var mu sync.Mutex
	r := newSet(2, func(m link.Ranks) {
		mu.Lock()
		defer mu.Unlock()
		*told = m
	})
	r.Begin(link.Generation{Number: 1, Membership: link.Membership{World: 2}})
	return r
}

// TestWhoPrintsIsFollowed: only rank 0 prints, as is usual, and its step is that of the replica; one that speaks for itself
// is not followed by its lines.
func TestWhoPrintsIsFollowed(t *testing.T) {
	var told link.Ranks
	r := ranksOf(&told)
	for step := range int64(5) {
		if !r.Printed(0, PrintedStep{Step: step + 1}, 1) {
			t.Fatal("not taken")
		}
	}
	r.mu.Lock()
	r.report()
	r.mu.Unlock()
	if told.Step != 5 || !told.Printed || !told.Watched || told.SteppedAt.IsZero() || told.Pace.Steps != 4 {
		t.Errorf("%+v", told)
	}
	now := time.Now()
	if list := r.Progress.Unnamed(now); len(list) != 1 || list[0] != 0 {
		t.Errorf("whose process is looked for: %v", list)
	}
	if list := r.Progress.Unnamed(now); len(list) != 0 {
		t.Errorf("and again at once: %v", list)
	}
	if r.Printed(0, PrintedStep{Step: 6}, 2) {
		t.Error("of another generation")
	}
	r.Progress.linked[1] = true
	if r.Printed(1, PrintedStep{Step: 3}, 1) {
		t.Error("it speaks for itself")
	}
}

// TestSilenceOfWhoPrints: it lasts longer before it is a hang, and after the last step it is none.
func TestSilenceOfWhoPrints(t *testing.T) {
	for name, c := range map[string]struct {
		over bool
		most time.Duration
		hung bool
	}{"between": {false, 40 * time.Second, true}, "after the last": {true, 9 * time.Minute, false}} {
		r := newRig()
		for i := range r.pulses {
			r.pulses[i].printed, r.pulses[i].over = true, c.over
		}
		last := r.now
		hung, _ := r.pass(c.most, nothing)
		if hung != c.hung || hung && r.now.Sub(last) < printedLeast {
			t.Errorf("%s: %v after %s", name, hung, r.now.Sub(last))
		}
	}
}

func FuzzPrinted(f *testing.F) {
	f.Add([]byte("step 1\nstep 2\r\n"), 3)
	f.Fuzz(func(t *testing.T, data []byte, at int) {
		p := &Printed{Tell: func(PrintedStep) bool { return true }}
		cut := max(0, min(at, len(data)))
		part := p.Feed(p.Feed(nil, data[:cut]), data[cut:])
		if p.look(); len(part) > 4<<10 {
			t.Fatal(len(part))
		}
	})
}

// TestOwnTime: the median of a rank's own part, once it is known well enough; pauses count for nothing.
func TestOwnTime(t *testing.T) {
	var told link.Ranks
	r := ranksOf(&told)
	report := func(i int, step int64, took, waited float64) {
		r.take(i, word.Word{Progress: &word.Progress{Step: step, T: took, Metrics: map[string]float64{"peer_wait": waited}}})
	}
	for step := range int64(ownKnown) {
		report(0, step+1, 0.3, 0.2)
		report(1, step+1, 0.3, 0.05)
		r.take(1, word.Word{Progress: &word.Progress{Step: step + 1, T: 9}}) // says nothing of waiting
	}
	report(0, ownKnown+1, 60, 0) // an evaluation that only rank 0 does
	report(0, ownKnown+2, 0, 0)  // after a pause its time is not known
	got := r.Progress.own.told(4)
	if len(got) != 2 || got[0].Rank != 4 || got[0].Steps != ownKnown+1 || got[1].Steps != ownKnown || math.Abs(got[0].Seconds-0.1) > 1e-9 || math.Abs(got[1].Seconds-0.25) > 1e-9 {
		t.Errorf("%+v", got)
	}
	r.Begin(link.Generation{Number: 2, Membership: link.Membership{World: 2}})
	if got = r.Progress.own.told(0); len(got) != 0 {
		t.Errorf("of another generation: %v", got)
	}
}
