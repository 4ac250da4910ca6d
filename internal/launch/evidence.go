package launch

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/diagnose"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/launch/process"
)

// Variables, so that tests on a slow machine can wait for longer.
var (
	// wordsWait is how long the rest of a dead rank's output is waited for: only a process that it left
	// behind can hold the pipe.
	wordsWait = 500 * time.Millisecond
	// culpritGrace is how long the one who caused the end of another rank may take to end itself.
	culpritGrace = time.Second
)

// causes is read when the first rank fails.
var causes = sync.OnceValue(diagnose.Load)

// failure is what is known of a rank that failed.
type failure struct {
	engine.Diagnosis
	at    time.Time
	guilt diagnose.Guilt
	// crowded: it gave up because it could make no more processes.
	crowded bool
}

// firstCause looks at the ranks that failed by now and makes the one that caused it the first. victim: none
// of them did, they died of another.
func (w *warden) firstCause() (at time.Time, victim bool) {
	now := w.r.clock.Now()
	for local, ws := range w.reaper.Ends {
		if _, known := w.failures[local]; known || ws == nil || !ws.Signaled() && ws.ExitStatus() == 0 {
			continue
		}
		f := w.look(local, *ws)
		if f.at = now; local != w.reaper.First {
			f.at = now.Add(time.Nanosecond) // seen at once, but the reaper saw the other first
		}
		w.failures[local] = f
	}
	first := w.reaper.First
	for local, f := range w.failures {
		if b := w.failures[first]; f.guilt != b.guilt && f.guilt == diagnose.Own || f.guilt == b.guilt && f.at.Before(b.at) {
			first = local
		}
	}
	if w.failures[first].guilt == diagnose.Peer {
		if local, f := w.leaver(now); f != nil {
			first, w.failures[local] = local, *f
		}
	}
	w.reaper.First = first
	return w.failures[first].at, w.failures[first].guilt == diagnose.Peer
}

// leaver is a rank that ended well, where the others died of having lost one: they still needed it.
func (w *warden) leaver(now time.Time) (local int, f *failure) {
	for local, ws := range w.reaper.Ends {
		if ws != nil && ws.Exited() && ws.ExitStatus() == 0 {
			e := diagnose.Evidence{Rank: w.g.FirstRank + local, Reason: engine.ReasonLeftEarly}
			rule := causes().Cause(e)
			return local, &failure{at: now, guilt: rule.Guilt, Diagnosis: engine.Diagnosis{
				Cause: rule.ID, Fingerprint: diagnose.Fingerprint(e, rule), Step: w.r.ranks.Progress.StepOf(local),
			}}
		}
	}
	return -1, nil
}

// look finds out why one rank failed. What was killed can't have said why: nobody waits for its words.
func (w *warden) look(local int, ws unix.WaitStatus) failure {
	e := process.ExitOf(ws)
	if e.Signal != "SIGKILL" {
		w.procs.Heard(local, wordsWait)
	}
	if w.tree.OOMKills() > w.r.before.ooms {
		e.Reason = engine.ReasonOutOfMemory
	}
	words := w.r.spool.Masked(w.procs.LastWords(local))
	crowded := e.Reason != engine.ReasonOutOfMemory && w.tree.ForksRefused() > w.r.before.forks && process.SaysNoFork(words)
	if crowded {
		e.Reason = engine.ReasonProcessLimit
	}
	evidence := diagnose.Evidence{Rank: w.g.FirstRank + local, Code: e.Code, Signal: e.Signal, Reason: e.Reason, Words: words}
	rule := causes().Cause(evidence)
	return failure{guilt: rule.Guilt, crowded: crowded, Diagnosis: engine.Diagnosis{
		Cause: rule.ID, Fingerprint: diagnose.Fingerprint(evidence, rule), Line: diagnose.Line(evidence, rule), Step: w.r.ranks.Progress.StepOf(local),
	}}
}
