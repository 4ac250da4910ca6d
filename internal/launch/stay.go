package launch

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/diagnose"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Partial restart. When a rank dies, or another launcher's did, ranks whose script can (fermi.rejoin) are
// told to leave their generation instead of being killed; the places of the dead are taken by new
// processes, and the next generation goes on with both. Whatever does not work out ends in the killing of
// all, which a full restart follows: nothing of this is on disk.

// leaveGrace is how long a rank may take to leave before it counts as dead: the most that a partial
// restart can be slower than a full one. A variable, so that tests on a slow machine can wait for longer.
var leaveGrace = 2 * time.Second

// part has the ranks leave instead of killing them. False: they can't, or it is too late.
func (w *warden) part() bool {
	if w.parting {
		return true
	}
	recipe := w.r.wall.Home.Replica.Recipe
	if w.ending || w.why != "" || w.reaper.Left == 0 || w.r.ranks.Progress.Hangs() || recipe != nil && (recipe.Bare || recipe.Table > 0) {
		return false
	}
	if o := w.r.words.inbox.after(w.g.Number); o != nil && !fits(w.g, o.g) {
		return false
	}
	able := w.r.ranks.Conns.AbleToLeave()
	for i, ws := range w.reaper.Ends {
		if ws == nil && !able[i] || ws != nil && !ws.Signaled() && ws.ExitStatus() == 0 {
			return false
		}
	}
	w.r.log.Info("ranks are told to leave", "generation", w.g.Number, "ranks", w.reaper.Left)
	w.parting, w.pressed, w.late = true, false, w.r.clock.After(leaveGrace)
	w.r.ranks.Conns.Leave()
	return true
}

// fits says that the ranks keep their numbers: what else depends on them they can't be told.
func fits(now, next link.Generation) bool {
	return next.World == now.World && next.FirstRank == now.FirstRank && next.Origin == nil // they have their slots open
}

// unasked sees ranks that left by themselves: a collective failed though no process of ours did. If nobody
// opens another generation for that in a moment, it is the failure.
func (w *warden) unasked() {
	left := w.r.ranks.Conns.HaveLeft()
	if len(left) == 0 || w.parting || w.ending || w.reaper.First >= 0 || w.superseded {
		w.alone = nil
		return
	}
	if w.alone == nil {
		w.alone = w.r.clock.After(culpritGrace)
	}
}

// abandoned tells of such a rank as of one that died of another.
func (w *warden) abandoned() {
	w.alone = nil
	local, why, ok := w.r.ranks.Conns.FirstLeft()
	if !ok || w.parting || w.ending || w.reaper.First >= 0 || w.superseded {
		return
	}
	if !w.g.Hold {
		w.r.ranks.Conns.Dismiss() // nobody opens another one: they end with their own last words
		return
	}
	rank := w.g.FirstRank + local
	evidence := diagnose.Evidence{Rank: rank, Code: 1, Reason: engine.ReasonNonZero, Words: w.r.spool.Masked(why)}
	rule := causes().Cause(evidence)
	w.r.log.Info("a rank left by itself", "rank", rank, "generation", w.g.Number, "cause", rule.ID)
	w.r.ranks.Failed(&link.RankExit{
		Rank: rank, Code: 1, Reason: engine.ReasonNonZero, At: w.r.clock.Now(),
		Diagnosis: engine.Diagnosis{
			Cause: rule.ID, Fingerprint: diagnose.Fingerprint(evidence, rule), Line: diagnose.Line(evidence, rule), Step: w.r.ranks.Progress.StepOf(local),
		},
	})
	if !w.part() {
		w.cut()
	}
}

// tooLate kills who has not left in time: from now on they are among the dead.
func (w *warden) tooLate() {
	w.late = nil
	missing := w.missing()
	if !w.parting || len(missing) == 0 {
		return
	}
	if w.pressed { // what was killed was not all of it
		w.giveUpParting()
		return
	}
	w.pressed, w.late = true, w.r.clock.After(leaveGrace)
	for _, i := range missing {
		w.r.log.Warn("a rank did not leave in time and is killed", "rank", w.g.FirstRank+i, "generation", w.g.Number)
		p, err := record.Describe(w.rankPID(i))
		if err == nil {
			err = p.Signal(unix.SIGKILL)
		}
		if err != nil {
			w.r.log.Warn("it can't be; all are", "error", err)
			w.giveUpParting()
			return
		}
	}
}

// missing are the local ranks that live and have not left.
func (w *warden) missing() (list []int) {
	left := w.r.ranks.Conns.HaveLeft()
	for i, ws := range w.reaper.Ends {
		if ws == nil && !left[i] {
			list = append(list, i)
		}
	}
	return list
}

// giveUpParting kills all: a full restart follows.
func (w *warden) giveUpParting() {
	w.parting, w.late = false, nil
	w.cut()
}

// stay begins the next generation with those who left, once all that live did and the order is there.
func (w *warden) stay(ctx context.Context) {
	if !w.parting || w.reaper.Left == 0 || len(w.missing()) > 0 {
		return
	}
	o := w.r.words.inbox.after(w.g.Number)
	if o == nil {
		return
	}
	if !fits(w.g, o.g) {
		w.giveUpParting()
		return
	}
	w.lookAway()
	err := w.join(o)
	w.lookOn(ctx)
	if err != nil {
		w.r.log.Warn("the ranks that left can't go on", "error", err)
		w.r.standby.End()
		w.superseded = true
		w.giveUpParting()
	}
}

// join is the next generation in the processes of the last, with new ones for the dead.
func (w *warden) join(o *order) error {
	r, g, dead := w.r, o.g, w.reaper.Dead()
	if err := r.recordGo(o); err != nil {
		return err
	}
	s, err := r.prepareRanks(g)
	if err != nil {
		return err
	}
	r.ranks.Place(s.Each)
	w.sweep()
	for _, i := range dead {
		start := r.wall.Starter()
		if ready := r.standby.Usable(); ready != nil {
			start = ready.Fork
		}
		p, err := process.Spawn(s.Replica, s.Dir, s.Env, s.Each[i:i+1], i, r.sink(g), start)
		if err != nil {
			return err
		}
		w.procs.Replace(i, g.FirstRank+i, p)
		w.reaper.Add(p, p.Hear(r.children))
	}
	r.log.Info("ranks stayed", "generation", g.Number, "stayed", w.procs.N-len(dead), "new", len(dead))
	r.said, w.g = g.Number, g
	w.renew()
	r.runs()
	r.standby.Keep(g.Hold, s.Replica, s.Dir, s.Env, s.Each[0], r.wall.Starter())
	w.tree.Spare = r.standby.Spares()
	return nil
}

// renew begins a generation: what was of the last is forgotten.
func (w *warden) renew() {
	w.superseded, w.resting = false, false
	w.suspicion = suspicion{failures: map[int]failure{}, leftThen: -1}
	w.departure = departure{}
	w.reaper.First, w.reaper.Settled = -1, false
}

// sweep kills what the dead left behind: whoever is not of a rank that stays, by descent or session.
func (w *warden) sweep() {
	stats := process.ReadAll()
	pids, sessions := map[int]bool{}, map[int]bool{}
	for _, pid := range w.r.ranks.Progress.Connected() {
		pids[pid] = true
		if sid, err := unix.Getsid(pid); err == nil {
			sessions[sid] = true
		}
	}
	for _, m := range w.tree.Members() {
		if w.reaper.Knows(m.Proc.PID) || pids[m.Proc.PID] {
			continue
		}
		if sid, err := unix.Getsid(m.Proc.PID); err != nil || sessions[sid] {
			continue // it has ended, or is of one that stays
		}
		kept := false
		for pid := range pids {
			kept = kept || process.Descends(m.Proc.PID, pid, stats)
		}
		if !kept {
			_ = m.Proc.Signal(unix.SIGKILL)
		}
	}
}
