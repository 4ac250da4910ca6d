package rankset

import (
	"net"
	"time"

	"golang.org/x/sys/unix"

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

// Silence looks whether the ranks hang; true once for each alarm.
func (r *Set) Silence(now time.Time, look func(int, bool) *process.Vitals) (alarm, sure bool) {
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

// Hung tells the leader what the ranks do instead of making progress, unless one went on meanwhile.
func (r *Set) Hung(states []link.RankState, at time.Time) {
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

// Connected are the processes of the local ranks that speak to us.
func (r *Set) Connected() map[int]int {
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

// SpeaksPython says that the rank is one of the Python SDK, which answers SIGUSR1 with its stacks.
func (r *Set) SpeaksPython(local int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.python[local]
}

// Slept: see stall.
func (r *Set) Slept(gap time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stall.slept(gap)
}

// StateOf is what is known of a silent rank's progress.
func (r *Set) StateOf(local int, now time.Time) link.RankState {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.glance()
	p := r.stall.pulses[local]
	return link.RankState{Rank: r.now.FirstRank + local, Step: max(p.step, r.at[local]), Silent: now.Sub(p.last)}
}
