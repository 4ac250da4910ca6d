package figure

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/restored"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/diagnose"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/link"
)

// crew is who trains, and what their launchers tell. It knows nothing of what is written down.
type crew struct {
	gang.Terms
	members gang.Members
	tells   bool // its ranks told steps before this turn
}

// failedAt is when what failed did. Of a launcher that is lost nobody knows but its engine, which may find it much later: it was well when
// the gang last got on. found: even that is not known.
func (c *crew) failedAt(f *api.ReplicaFailure, role string) (at time.Time, found bool) {
	if at = f.At.Add(-c.silence(f)); f.Rank != nil || f.Reason != engine.ReasonLauncherLost {
		return at, false
	}
	seen := c.seen(role)
	switch {
	case seen.IsZero():
		return at, true
	case seen.Before(at) || at.IsZero():
		return seen, false
	}
	return at, false
}

// seen is when the gang, or a role that is alone, was last seen to get on; zero: nobody tells.
func (c *crew) seen(role string) (at time.Time) {
	for i := range c.members {
		if m := &c.members[i]; c.Alone(m.Role) == role && m.Said.Pace.Course.First > 0 && m.Said.Pace.Course.LastAt.After(at) {
			at = m.Said.Pace.Course.LastAt
		}
	}
	return at
}

// silence is for how long a rank that hangs had made no progress when that was seen: it failed then.
func (c *crew) silence(f *api.ReplicaFailure) (longest time.Duration) {
	if f.Rank == nil || f.Reason != diagnose.ReasonHung && f.Reason != diagnose.ReasonStopped {
		return 0
	}
	for i := range c.members {
		for _, r := range c.members[i].Said.Hung {
			if c.members[i].Role == f.Role && r.Rank == *f.Rank {
				longest = max(longest, r.Silent)
			}
		}
	}
	return longest
}

// farthest is the newest step that any launcher of the role, or of the others, told of. Before its ranks tell one a launcher says where
// they were told to go on from: that counts where they told steps before.
func (c *crew) farthest(role string) (step int64) {
	for i := range c.members {
		if m := &c.members[i]; c.Alone(m.Role) == role && (c.tells || !m.Said.SteppedAt.IsZero()) {
			step = max(step, m.Said.Step)
		}
	}
	return step
}

// kept is how many ranks of the generation kept their process from the last.
func (c *crew) kept(role string, generation int) (n int) {
	for i := range c.members {
		if m := &c.members[i]; c.Alone(m.Role) == role && m.Said.Generation == int64(generation) {
			n += m.Said.Kept
		}
	}
	return n
}

// toldStep is the step that the ranks of a generation were told to go on from; 0: not known. What a script saves to its own folder is numbered as it
// likes: by steps, by epochs, or not at all, where the time counts.
func (c *crew) toldStep(r *api.Rendezvous) int64 {
	if r == nil || c.Task.Spec.CheckpointFolder() != "" {
		return 0
	}
	return r.Restore
}

// source is where the states came from that the ranks of a generation began from, as they were told and as their launchers say.
func (c *crew) source(role string, generation int, told *api.Rendezvous) string {
	said := map[string]bool{}
	for i := range c.members {
		if m := &c.members[i]; c.Alone(m.Role) == role && m.Said.Generation == int64(generation) {
			said[m.Said.Restored] = true
		}
	}
	switch {
	case said[engine.FromFolder]:
		return restored.Folder
	case told != nil && told.Origin != nil && len(said) == 1 && said[link.TierLocal]:
		return restored.Local
	case told != nil && told.Origin != nil: // also where only some of the ranks needed it
		return restored.Shared
	case said[engine.FromPeer]:
		return restored.Peer
	case told == nil || told.Restore == 0:
		return restored.Beginning
	case c.Task.Spec.Checkpoint != nil && c.Task.Spec.Checkpoint.Instant != "":
		return restored.Instant
	}
	return restored.Memory
}

// progress is how far the ranks of a generation are, together.
type progress struct {
	step    int64     // that all of them have made
	begun   bool      // each has made one in this generation
	first   int64     // the first that one of them made; 0: not known
	firstAt time.Time // when the last of them had made its first
	lastAt  time.Time // when they were last seen to get on; zero: not known
	stalled time.Duration
	// patience is how long they may take for a step; 0: not known yet.
	patience time.Duration
	pausing  bool
}

// progress adds up what launchers tell of a role that starts again by itself, or of the others. A launcher of another generation has not
// begun. Where ranks are followed by what they print, mostly only the first does: the others say nothing.
func (c *crew) progress(role string, generation int) (p progress) {
	printed := c.members.Any(func(m *gang.Member) bool { return m.Said.Printed && c.Alone(m.Role) == role })
	none := true
	for i := range c.members {
		m := &c.members[i]
		if c.Alone(m.Role) != role || printed && !m.Said.Watched {
			continue
		}
		if m.Said.Generation != int64(generation) {
			return progress{}
		}
		course := &m.Said.Pace.Course
		stepped := !m.Said.SteppedAt.IsZero()
		if none {
			p.step, p.begun, none = m.Said.Step, stepped, false
		}
		p.step, p.begun = min(p.step, m.Said.Step), p.begun && stepped
		if course.First > 0 && (p.first == 0 || course.First < p.first) {
			p.first = course.First
		}
		if m.Said.SteppedAt.After(p.firstAt) {
			p.firstAt = m.Said.SteppedAt
		}
		if course.LastAt.After(p.lastAt) {
			p.lastAt = course.LastAt
		}
		p.stalled, p.patience, p.pausing = max(p.stalled, course.Stalled), max(p.patience, course.Patience), p.pausing || course.Pausing
	}
	return p
}

// mains says that there are ranks that start again with the task: a role that starts again by itself is not all of it.
func (c *crew) mains() bool {
	for i := range c.members {
		if c.Alone(c.members[i].Role) == "" {
			return true
		}
	}
	return false
}

// pace adds up what the launchers of the generation tell. reports: all of them tell of steps.
func (c *crew) pace(generation int) (sum link.Pace, ranks int, peak float64, reports bool) {
	known := true
	printed := c.members.Any(func(m *gang.Member) bool { return m.Said.Printed })
	for i := range c.members {
		m := &c.members[i]
		if c.Alone(m.Role) != "" || printed && !m.Said.Watched { // mostly only the first rank prints
			continue
		}
		if m.Said.Generation != int64(generation) || m.Said.SteppedAt.IsZero() {
			return link.Pace{}, 0, 0, false
		}
		sum.Steps += m.Said.Pace.Steps
		sum.Seconds += m.Said.Pace.Seconds
		sum.Samples += m.Said.Pace.Samples
		sum.Tokens += m.Said.Pace.Tokens
		sum.Flops += m.Said.Pace.Flops
		sum.Waited += m.Said.Pace.Waited
		sum.Skipped = max(sum.Skipped, m.Said.Pace.Skipped)
		if scale := m.Said.Pace.Scale; scale > 0 && (sum.Scale == 0 || scale < sum.Scale) {
			sum.Scale = scale
		}
		ranks, peak, known, reports = ranks+m.Ranks, peak+m.Peak, known && m.Peak > 0, true
	}
	if !known {
		peak = 0
	}
	return sum, ranks, peak, reports
}
