package launch

import (
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/diagnose"
	"github.com/fermi-cluster/fermi/internal/engine"
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

// tail keeps the last a rank printed.
type tail struct {
	mu    sync.Mutex
	buf   []byte
	total int64
}

func (t *tail) add(data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total += int64(len(data))
	if n := len(data) - diagnose.MaxWords; n > 0 {
		data = data[n:]
	}
	if len(t.buf)+len(data) > 2*diagnose.MaxWords { // then there are more than are kept
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-(diagnose.MaxWords-len(data)):]...)
	}
	t.buf = append(t.buf, data...)
}

// words are the last ones, at most diagnose.MaxWords; since: only what came after so many bytes.
func (t *tail) words(since int64) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(int64(len(t.buf)), diagnose.MaxWords, max(t.total-since, 0))
	return string(t.buf[int64(len(t.buf))-n:])
}

// printed is how many bytes came so far.
func (t *tail) printed() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

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
	now := w.l.clock.Now()
	for local, ws := range w.reaper.ends {
		if _, known := w.failures[local]; known || ws == nil || !ws.Signaled() && ws.ExitStatus() == 0 {
			continue
		}
		f := w.look(local, *ws)
		if f.at = now; local != w.reaper.first {
			f.at = now.Add(time.Nanosecond) // seen at once, but the reaper saw the other first
		}
		w.failures[local] = f
	}
	first := w.reaper.first
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
	w.reaper.first = first
	return w.failures[first].at, w.failures[first].guilt == diagnose.Peer
}

// leaver is a rank that ended well, where the others died of having lost one: they still needed it.
func (w *warden) leaver(now time.Time) (local int, f *failure) {
	for local, ws := range w.reaper.ends {
		if ws != nil && ws.Exited() && ws.ExitStatus() == 0 {
			e := diagnose.Evidence{Rank: w.g.FirstRank + local, Reason: engine.ReasonLeftEarly}
			rule := causes().Cause(e)
			return local, &failure{at: now, guilt: rule.Guilt, Diagnosis: engine.Diagnosis{
				Cause: rule.ID, Fingerprint: diagnose.Fingerprint(e, rule), Step: w.l.ranks.stepOf(local),
			}}
		}
	}
	return -1, nil
}

// look finds out why one rank failed. What was killed can't have said why: nobody waits for its words.
func (w *warden) look(local int, ws unix.WaitStatus) failure {
	e := exitOf(ws)
	if e.Signal != "SIGKILL" {
		w.procs.heard(local, wordsWait)
	}
	if w.tree.oomKills() > w.oomBefore {
		e.Reason = engine.ReasonOutOfMemory
	}
	words := w.l.spool.masked(w.procs.lastWords(local))
	crowded := e.Reason != engine.ReasonOutOfMemory && w.tree.forksRefused() > w.forksBefore && saysNoFork(words)
	if crowded {
		e.Reason = engine.ReasonProcessLimit
	}
	evidence := diagnose.Evidence{Rank: w.g.FirstRank + local, Code: e.Code, Signal: e.Signal, Reason: e.Reason, Words: words}
	rule := causes().Cause(evidence)
	return failure{guilt: rule.Guilt, crowded: crowded, Diagnosis: engine.Diagnosis{
		Cause: rule.ID, Fingerprint: diagnose.Fingerprint(evidence, rule), Line: diagnose.Line(evidence, rule), Step: w.l.ranks.stepOf(local),
	}}
}

// lastWords are what a rank printed last. Every state of a progress bar is a line of its own there.
func (p *processes) lastWords(local int) string {
	return strings.ReplaceAll(p.tails[local].words(0), "\r", "\n")
}

// heard waits until everything a dead rank printed was read, or so long.
func (p *processes) heard(local int, limit time.Duration) {
	end := time.NewTimer(limit)
	defer end.Stop()
	first := slices.MinFunc(p.pumps, func(a, b *pump) int { return a.rank - b.rank }).rank
	for _, pump := range p.pumps {
		if pump.rank != first+local {
			continue
		}
		select {
		case <-pump.ended:
		case <-end.C:
			return
		}
	}
}
