package launch

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/link"
)

// pidOf is who connected, as this launcher's namespace numbers it; 0 where that is not known.
func pidOf(conn net.Conn) (pid int) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return 0
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}

// silence looks whether the ranks hang; true once for each alarm.
func (r *ranks) silence(now time.Time, look func(int, bool) *process.Vitals) (alarm, sure bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.said.Hung) > 0 || r.frozen || r.said.Generation != r.now.Number {
		return false, false
	}
	r.stall.keeping = r.job != nil || len(r.wants) > 0
	if alarm, sure = r.stall.hung(now, look); alarm {
		r.stall.alarmed(sure)
	}
	return alarm, sure
}

// hung tells the leader what the ranks do instead of making progress, unless one went on meanwhile.
func (r *ranks) hung(states []link.RankState, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range states {
		if p := r.stall.pulses[s.Rank-r.now.FirstRank]; p.last.After(at) {
			return
		}
	}
	r.said.Hung, r.said.HungAt = states, at
	r.report()
}

// connected are the processes of the local ranks that speak to us.
func (r *ranks) connected() map[int]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[int]int{}
	for local, p := range r.stall.pulses {
		if p.pid != 0 {
			out[local] = p.pid
		}
	}
	return out
}

// speaksPython says that the rank is one of the Python SDK, which answers SIGUSR1 with its stacks.
func (r *ranks) speaksPython(local int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.python[local]
}

// watchProgress is the warden's look at silent ranks.
func (w *warden) watchProgress(ctx context.Context) {
	for last := w.l.clock.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-w.l.clock.After(stallTick):
		}
		now := w.l.clock.Now()
		if gap := now.Sub(last); gap > 4*stallTick {
			w.l.ranks.slept(gap)
		}
		last = now
		for _, local := range w.l.ranks.unnamed(now) {
			w.l.ranks.name(local, w.rankPID(local))
		}
		if alarm, sure := w.l.ranks.silence(now, w.drag.Look()); alarm {
			w.testify(now, sure)
		}
	}
}

// slept: see stall.
func (r *ranks) slept(gap time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stall.slept(gap)
}

// testify gathers what every rank does, tells the leader and the user's log.
func (w *warden) testify(now time.Time, sure bool) {
	pids := w.l.ranks.connected()
	frames := w.dump(pids)
	var states []link.RankState
	kernel := map[int][]fault.Text{} // by rank
	look := w.drag.Look()
	for local, pid := range pids {
		v := look(pid, false)
		if v == nil {
			continue
		}
		s := w.l.ranks.stateOf(local, now)
		s.State, s.Waits = v.State, process.WaitsIn(pid)
		s.Collective, s.Backward = collective.MatchString(frames[local]), backward.MatchString(frames[local])
		states, kernel[s.Rank] = append(states, s), process.InKernel(pid)
	}
	slices.SortFunc(states, func(a, b link.RankState) int { return a.Rank - b.Rank })
	w.l.log.Warn("ranks make no progress", "generation", w.g.Number, "sure", sure, "ranks", len(states))
	for _, s := range states {
		w.l.spool.Notice("%s", fault.T("rank %d: no progress since step %d, for %s; state %s, waits in %s", "rank %d：自第 %d 步起 %s 无进展；状态 %s，等待于 %s",
			s.Rank, s.Step, s.Silent.Round(100*time.Millisecond), strconv.QuoteRune(rune(s.State)), orDash(s.Waits)).Pack())
		for _, line := range kernel[s.Rank] {
			w.l.spool.Notice("%s", fault.Text{EN: fmt.Sprintf("rank %d: %s", s.Rank, line.EN), ZH: fmt.Sprintf("rank %d：%s", s.Rank, line.In("zh"))}.Pack())
		}
	}
	if len(states) > 0 {
		w.l.ranks.hung(states, now)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// stateOf is what is known of a silent rank's progress.
func (r *ranks) stateOf(local int, now time.Time) link.RankState {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.glance()
	p := r.stall.pulses[local]
	return link.RankState{Rank: r.now.FirstRank + local, Step: max(p.step, r.at[local]), Silent: now.Sub(p.last)}
}
