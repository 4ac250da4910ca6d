package idle

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/activity"
)

var began = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// history is a day in an environment: when each signal was active, second by second in spans.
type history struct {
	rule  Rule
	skew  time.Duration // of the launcher's clock
	spans map[activity.Name][][2]int
	kept  []int
	away  [][2]int // the launcher could not be asked
	lag   int      // seconds between the look that was due and the look
}

func random(r *rand.Rand) *history {
	h := &history{spans: map[activity.Name][][2]int{}, skew: time.Duration(r.IntN(7200)-3600) * time.Second, lag: r.IntN(20)}
	h.rule.After = time.Duration(2+r.IntN(60)) * time.Minute
	if r.IntN(2) == 0 {
		for _, n := range activity.All {
			if r.IntN(2) == 0 {
				h.rule.Counts = append(h.rule.Counts, n)
			}
		}
	}
	for range r.IntN(12) {
		n := activity.All[r.IntN(len(activity.All))]
		from := r.IntN(6 * 3600)
		h.spans[n] = append(h.spans[n], [2]int{from, from + 1 + r.IntN(1+r.IntN(3000))})
	}
	for range r.IntN(3) {
		h.kept = append(h.kept, r.IntN(6*3600))
	}
	for range r.IntN(3) {
		from := r.IntN(6 * 3600)
		h.away = append(h.away, [2]int{from, from + r.IntN(1200)})
	}
	return h
}

func in(spans [][2]int, at int) bool {
	return slices.ContainsFunc(spans, func(s [2]int) bool { return s[0] <= at && at < s[1] })
}

// table is what a launcher would say at a second.
func (h *history) table(at int) activity.Table {
	clock := func(second int) time.Time { return began.Add(time.Duration(second)*time.Second + h.skew) }
	t := activity.Table{At: clock(at), Since: clock(0)}
	for _, n := range activity.All {
		s := activity.Signal{Name: n, Active: in(h.spans[n], at)}
		last := -1
		for _, span := range h.spans[n] {
			if span[0] <= at {
				last = max(last, min(at, span[1]-1))
			}
		}
		if last >= 0 {
			when := clock(last)
			s.Last = &when
		}
		t.Signals = append(t.Signals, s)
	}
	return t
}

// lastCounted is, told the slow way, the last second up to at in which something that counts was active.
func (h *history) lastCounted(at int) (last int) {
	for n, spans := range h.spans {
		if len(h.rule.Counts) > 0 && !slices.Contains(h.rule.Counts, n) {
			continue
		}
		for _, s := range spans {
			if s[0] <= at {
				last = max(last, min(at, s[1]-1))
			}
		}
	}
	for _, k := range h.kept {
		if k <= at {
			last = max(last, k)
		}
	}
	return last
}

// TestHistories: 300 generated days. No environment is stopped while a signal that counts is active or was within the rule's time, none
// without a warning that was old enough, and every one that is idle and can be asked is stopped within a minute of its rule.
func TestHistories(t *testing.T) {
	stopped := 0
	for seed := range uint64(300) {
		h := random(rand.New(rand.NewPCG(seed, 23)))
		after, warning := int(h.rule.After/time.Second), int(h.rule.Warning()/time.Second)
		var seen Seen
		heard, warnedAt, end := false, -1, -1
		look := 0
		for at := 0; at < 12*3600 && end < 0; at++ {
			now := began.Add(time.Duration(at) * time.Second)
			seen.Kept = time.Time{}
			wake := at >= look
			for _, k := range h.kept {
				if k <= at {
					if then := began.Add(time.Duration(k) * time.Second); then.After(seen.Kept) {
						seen.Kept = then
					}
				}
				wake = wake || k == at // the object changed
			}
			if !wake {
				continue
			}
			if asked := at >= look; asked && !in(h.away, at) {
				seen.Table, seen.Heard, heard = h.table(at), now, true
			}
			if !heard {
				continue
			}
			v := Judge(h.rule, seen, now)
			if v.Clear {
				seen.Warned, warnedAt = time.Time{}, -1
			}
			if v.Warn {
				seen.Warned, warnedAt = now, at
			}
			if v.Stop {
				end = at
				if v.Warn || warnedAt < 0 || at-warnedAt < warning {
					t.Errorf("seed %d: stopped at %d, warned at %d, a warning is %d", seed, at, warnedAt, warning)
				}
				if last := h.lastCounted(at); at-last < after {
					t.Errorf("seed %d: stopped at %d, active at %d, the rule is %d", seed, at, last, after)
				}
				break
			}
			look = max(at+1, int(v.Look.Sub(began)/time.Second)+h.lag)
		}
		// The slow way to say when it had to be stopped: the first second in which nothing had been for the rule's time, and nothing came in the
		// minute in which it may be late.
		due := -1
		for at := after; at < 12*3600; at++ {
			if at+60-h.lastCounted(at+60) >= after+60 {
				due = at
				break
			}
		}
		quiet := due >= 0 && !slices.ContainsFunc(h.away, func(s [2]int) bool { return s[0] <= due+60 && s[1] >= due-warning-60 })
		if quiet && (end < 0 || end > due+60) {
			t.Errorf("seed %d: due at %d, stopped at %d", seed, due, end)
		}
		if end >= 0 {
			stopped++
		}
	}
	if stopped < 200 {
		t.Errorf("only %d histories ended in a stop: the test proves little", stopped)
	}
}

// TestUnknownIsNoReason: by a table that is old nobody is stopped; a rule of never warns and stops nobody.
func TestUnknownIsNoReason(t *testing.T) {
	table := activity.Table{At: began, Since: began}
	now := began.Add(3 * time.Hour)
	seen := Seen{Table: table, Heard: began, Warned: began.Add(time.Hour)}
	if v := Judge(Rule{After: time.Hour}, seen, now); v.Stop || v.Warn || v.Look != now {
		t.Errorf("by an old table: %+v", v)
	}
	table.At = now
	seen.Table, seen.Heard = table, now
	if v := Judge(Rule{After: time.Hour}, seen, now); !v.Stop {
		t.Errorf("by a fresh one: %+v", v)
	}
	if v := Judge(Rule{}, seen, now); v.Stop || v.Warn || !v.Clear || !v.Look.IsZero() {
		t.Errorf("never: %+v", v)
	}
	seen.Warned = time.Time{}
	if v := Judge(Rule{After: time.Hour}, seen, now); v.Stop || !v.Warn || v.StopsAt != now.Add(5*time.Minute) {
		t.Errorf("a server that was away warns first: %+v", v)
	}
}
