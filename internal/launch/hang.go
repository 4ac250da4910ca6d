package launch

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/rankset"
	"github.com/fermi-cluster/fermi/internal/link"
)

// witness looks at the ranks of a generation that make no progress, and says what they do.
type witness struct {
	tools
	ranks *rankset.Set
	procs *process.Set
	g     link.Generation
	drag  *process.Drag
	pid   func(local int) int // of a rank; 0: it was not found
	rests bool                // it matters whether they do anything at all
	stays chan int            // local ranks that are done and do not end
}

// watch looks at silent ranks until ctx ends.
func (w *witness) watch(ctx context.Context) {
	dormant, done, looked := rankset.Dormant{}, rankset.Dormant{}, w.clock.Now()
	stayed := looked
	for last := looked; ; {
		select {
		case <-ctx.Done():
			return
		case <-w.clock.After(rankset.StallTick):
		}
		now := w.clock.Now()
		if gap := now.Sub(last); gap > 4*rankset.StallTick {
			w.ranks.Progress.Slept(gap)
		}
		last = now
		if now.Sub(stayed) >= lingerAfter/8 {
			stayed = now
			w.linger(done, now)
		}
		if now.Sub(looked) >= rankset.DormantTick {
			looked = now
			w.rest(dormant, now)
		}
		for _, local := range w.ranks.Progress.Unnamed(now) {
			w.ranks.Progress.Name(local, w.pid(local))
		}
		if alarm, sure := w.ranks.Silence(now, w.drag.Look()); alarm {
			w.testify(now, sure)
		}
	}
}

// lingerAfter is how long the process of a rank that said that it is done, with success, may do nothing before it is ended: a thread that
// nobody joins keeps a program that has returned. Tests have less.
var lingerAfter = 2 * time.Minute

// linger names ranks that are done and whose processes only stay.
func (w *witness) linger(dormant rankset.Dormant, now time.Time) {
	look := w.drag.Look()
	for _, local := range w.ranks.Progress.Done() {
		pid := w.pid(local)
		if pid == 0 {
			continue
		}
		v := look(pid, true)
		if v == nil || dormant.Note(local, now, rankset.Sign{Vitals: *v, Printed: w.procs.Tails[local].Printed()}) < lingerAfter {
			continue
		}
		select {
		case w.stays <- local:
		default: // the warden has not come to the last one yet
		}
	}
}

// release ends the process of a rank that is done and only stays.
func (w *witness) release(r *process.Reaper, local int) {
	proc, err := record.Describe(w.pid(local))
	if err != nil || r.Ends[local] != nil {
		return
	}
	r.Done[local] = true
	rank := w.g.FirstRank + local
	w.spool.Notice("%s", fault.T("rank %d: it is done, but its process did not end and does nothing; it is ended, as a success", "rank %d：已完成，但其进程未退出且没有任何活动；现将其结束，并计为成功", rank).Pack())
	if err := proc.Signal(unix.SIGKILL); err != nil {
		w.log.Warn("a rank that is done can't be ended", "rank", rank, "error", err)
	}
}

// rest looks whether ranks that tell nothing of how far they are do anything at all.
func (w *witness) rest(dormant rankset.Dormant, now time.Time) {
	if !w.rests || w.ranks.Progress.Told() {
		return
	}
	var states []link.RankState
	look := w.drag.Look()
	for local := range w.procs.N {
		pid := w.pid(local)
		if pid == 0 {
			continue
		}
		v := look(pid, true)
		if v == nil {
			continue // it has ended
		}
		s := w.ranks.Progress.StateOf(local, now)
		s.State, s.Waits = v.State, process.WaitsIn(pid)
		s.Silent = dormant.Note(local, now, rankset.Sign{Vitals: *v, Printed: w.procs.Tails[local].Printed()})
		states = append(states, s)
	}
	w.ranks.Hung(states, now)
}

// testify gathers what every rank does, tells the leader and the user's log.
func (w *witness) testify(now time.Time, sure bool) {
	pids := w.ranks.Progress.Connected()
	frames := w.dump(pids)
	var states []link.RankState
	kernel := map[int][]fault.Text{} // by rank
	look := w.drag.Look()
	for local, pid := range pids {
		v := look(pid, false)
		if v == nil {
			continue
		}
		s := w.ranks.Progress.StateOf(local, now)
		s.State, s.Waits = v.State, process.WaitsIn(pid)
		s.Collective, s.Backward = collective.MatchString(frames[local]), backward.MatchString(frames[local])
		states, kernel[s.Rank] = append(states, s), process.InKernel(pid)
	}
	slices.SortFunc(states, func(a, b link.RankState) int { return a.Rank - b.Rank })
	w.log.Warn("ranks make no progress", "generation", w.g.Number, "sure", sure, "ranks", len(states))
	for _, s := range states {
		w.spool.Notice("%s", fault.T("rank %d: no progress since step %d, for %s; state %s, waits in %s", "rank %d：自第 %d 步起 %s 无进展；状态 %s，等待于 %s",
			s.Rank, s.Step, s.Silent.Round(100*time.Millisecond), strconv.QuoteRune(rune(s.State)), orDash(s.Waits)).Pack())
		for _, line := range kernel[s.Rank] {
			w.spool.Notice("%s", fault.Text{EN: fmt.Sprintf("rank %d: %s", s.Rank, line.EN), ZH: fmt.Sprintf("rank %d：%s", s.Rank, line.In("zh"))}.Pack())
		}
	}
	if len(states) > 0 {
		w.ranks.Hung(states, now)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
