package blame

import (
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/ending"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/diagnose"
	"github.com/fermi-cluster/fermi/internal/engine"
)

// Past are the faults of a task within its restart window, the oldest first.
type Past []api.PastFault

// Recent are those that still count.
func Recent(list []api.PastFault, window time.Duration, now time.Time) Past {
	return slices.DeleteFunc(slices.Clone(list), func(f api.PastFault) bool { return now.Sub(f.At) >= window })
}

// With adds one; the oldest go where there are too many.
func (l Past) With(f api.PastFault) Past {
	list := append(l, f)
	return list[max(0, len(list)-api.MaxPastFaults):]
}

// FaultOf is a failure as it is kept for those to come, with where it was.
func FaultOf(u *gang.Unit, fail *api.ReplicaFailure, now time.Time) api.PastFault {
	f := api.PastFault{
		At: now, Generation: u.Generation, Role: fail.Role, Node: fail.Node, Cause: fail.Cause, Fingerprint: fail.Fingerprint, Step: fail.Step,
	}
	for i := range u.Members {
		if m := &u.Members[i]; string(m.Name) == fail.Replica {
			f.Rack, f.Leaf, f.Zone = m.Rack, m.Leaf, m.Zone
			f.Planned = m.Closed && (fail.Reason == engine.ReasonLauncherLost || fail.Reason == engine.ReasonNodeLost)
		}
	}
	return f
}

// Has says that the program failed in this way, at this step, before: in whatever order others came between.
func (l Past) Has(fail *api.ReplicaFailure, generation int) bool {
	return fail.Fingerprint != "" && slices.ContainsFunc(l, func(f api.PastFault) bool {
		return f.Fingerprint == fail.Fingerprint && f.Step == fail.Step && (f.Generation != generation || f.Role != fail.Role)
	})
}

// Troubled is the smallest kind of place that had a fault of a machine before the newest one, which was one too, and that
// newest one; "": none had.
func (l Past) Troubled() (kind string, last api.PastFault) {
	if len(l) == 0 || !ofPlace(&l[len(l)-1]) {
		return "", last
	}
	last = l[len(l)-1]
	for _, kind := range api.Places {
		if slices.ContainsFunc(l[:len(l)-1], func(f api.PastFault) bool {
			return ofPlace(&f) && f.Generation != last.Generation && last.In(kind) != "" && f.In(kind) == last.In(kind)
		}) {
			return kind, last
		}
	}
	return "", last
}

func ofPlace(f *api.PastFault) bool {
	return !f.Planned && slices.ContainsFunc(ending.Rules(), func(r *diagnose.Rule) bool { return r.ID == f.Cause && r.Place })
}

// InTrouble says that a member is where the newest fault was not the first; status says which those were.
func InTrouble(status *api.TrainingTaskStatus, m *gang.Member) bool {
	kind, last := Past(status.Faults).Troubled()
	at := api.PastFault{Node: m.Node, Rack: m.Rack, Leaf: m.Leaf, Zone: m.Zone}
	return kind != "" && at.In(kind) == last.In(kind)
}

// Avoid says that a lost member shall not be replaced by this one if there is a choice: it is where the newest fault was not the first.
func Avoid(task *api.TrainingTask, m *gang.Member) bool { return InTrouble(&task.Status, m) }
