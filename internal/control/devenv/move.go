package devenv

import (
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	kind "github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/control/work"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// A home is moved in four writes, with any crash between them:
//
//	stopped and saved       a snapshot, as anybody may ask for one
//	→ Moving, Pending       it is to start elsewhere, with a home of another name that the snapshot fills; the old one stays
//	→ its processes ran     the launcher starts none before the home is whole: the new one counts, the old one is named in moved.left
//	→ it is deleted         and named no more
//
// Where it ends before its processes ran, the old home counts again and the new one is what is left.

// dropAgain is when a home that could not be deleted is tried again.
const dropAgain = time.Minute

// moving begins a move whose home is saved, or gives it up.
func moving(s *work.Seen, e *kind.DevEnvironment, now time.Time) work.Plan {
	m, snap := kind.Moves{Of: e}, e.Status.Snapshot
	if snap == nil || snap.Version == 0 {
		next := *e
		why := fault.T("No snapshot of it was made.", "未创建其快照。")
		if snap != nil {
			why = snap.Message
		}
		m.GiveUp(&next.Status, why, now)
		return work.Plan{Next: &next, Events: []work.Event{told(&next)}}
	}
	v, ok := s.Made.(*asset.AssetVersion)
	if !ok {
		return work.Plan{Wake: lookAgain}
	}
	if left := e.Status.Moved; left != nil && left.Left != nil && !s.Dropped { // of the move before
		return work.Plan{Wake: dropAgain}
	}
	plan := started(s, e)
	next := plan.Next.(*kind.DevEnvironment)
	next.Status.Starts = max(e.Spec.Starts, e.Status.Starts)
	m.Begin(next, mount.AssetRef{
		Name: snap.Dataset, Version: strconv.Itoa(snap.Version), Settled: mount.Settled{Digest: v.Spec.Manifest, Size: int64(v.Spec.Size)},
	})
	return plan
}

// move follows one; it says whether next was changed.
func move(s *work.Seen, e, next *kind.DevEnvironment, plan *work.Plan, now time.Time) (changed bool) {
	m := kind.Moves{Of: e}
	if moved := e.Status.Moved; moved != nil && moved.Left != nil {
		if s.Dropped {
			rest := *moved
			rest.Left = nil
			next.Status.Moved, changed = &rest, true
		} else {
			wakeBy(plan, dropAgain)
		}
	}
	switch {
	case !m.Filling():
		return changed
	case next.Status.Phase == api.PhaseRunning, s.Started() != nil:
		m.Prove(&next.Status, now)
	case next.Status.Phase.Finished():
		m.Return(next, now)
		next.Status.Message = next.Status.Moved.Message
	default:
		return changed
	}
	plan.Events = append(plan.Events, told(next))
	return true
}

// told is the event of the end of a move.
func told(e *kind.DevEnvironment) work.Event {
	m := e.Status.Moved
	reason := "HomeMoved"
	if e.Status.HomeCount != m.Count {
		reason = "HomeNotMoved"
	}
	return work.Event{Warning: reason == "HomeNotMoved", Reason: reason, Message: m.Message, Once: "move-" + strconv.Itoa(m.Count)}
}
