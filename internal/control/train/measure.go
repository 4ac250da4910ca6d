package train

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/train/figure"
	"github.com/fermi-cluster/fermi/internal/telemetry"
)

// measure counts what a commit brought: it is called once for each that was taken.
func measure(m *telemetry.Recoveries, project string, before, after *api.TrainingTaskStatus) {
	old, in := figure.CopyInterruptions(before.Interruptions), figure.CopyInterruptions(after.Interruptions)
	for cause, n := range in.Causes {
		for range n - old.Causes[cause] {
			m.Failed(cause)
		}
	}
	m.LostSteps(in.LostSteps - old.LostSteps)
	if u := after.Use; u != nil && u != before.Use {
		was := api.Use{}
		if o := before.Use; o != nil && o.Saves <= u.Saves && o.WholeSaves <= u.WholeSaves { // fewer: other launchers count anew
			was = *o
		}
		m.Saved(u.Saves-was.Saves, u.WholeSaves-was.WholeSaves)
	}
	if in.Recovered > old.Recovered { // the newest that passed: it may have failed again since it was looked at
		for i := range in.Last {
			if r := &in.Last[len(in.Last)-1-i]; r.Passed && r.EndedAt != nil {
				m.Recovered(phaseSeconds(r), r.EndedAt.Sub(r.FailedAt))
				break
			}
		}
	}
	if after.Phase.Finished() && !before.Phase.Finished() {
		m.Finished(project, string(after.Phase), spentOf(after.Time))
	}
}

// spentOf is how the time of a task that ended was spent; none of one that had ended before, whose time was counted then.
func spentOf(u *api.TimeUse) map[string]time.Duration {
	out := map[string]time.Duration{}
	if u == nil || u.Spent[api.TimeStopped] > 0 {
		return out
	}
	for kind, d := range u.Spent {
		out[kind] = d.Std()
	}
	return out
}

func phaseSeconds(r *api.Recovery) map[string]time.Duration {
	out := map[string]time.Duration{}
	for name, d := range r.Phases() {
		out[string(name)] = d
	}
	return out
}
