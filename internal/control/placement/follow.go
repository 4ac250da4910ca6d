package placement

import (
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/booking"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/sched"
)

// intake brings the store's changes into a model.
type intake struct {
	m *model
	// kinds is the order in which the model takes up what is there: nodes before placements before who owns them.
	kinds []api.Kind
	// owner finds the work that a placement is for, in memory.
	owner func(id string) (api.Work, error)
}

// follow brings changes into the model: first what is there, in the order of kinds, then what is
// gone, in the opposite one. A feed's own order is that of first changes: a place that changed and
// then went with its task's end would be gone before the end is seen, and nothing learned from it.
func (in *intake) follow(changes []store.Change) {
	for _, kind := range in.kinds {
		for _, ch := range changes {
			if ch.Key.Kind != kind {
				continue
			}
			if old := in.replaced(ch); old.Key.Kind != "" {
				in.change(old)
			}
			if ch.New != nil {
				in.change(ch)
			}
		}
	}
	for _, kind := range slices.Backward(in.kinds) {
		for _, ch := range changes {
			if ch.Key.Kind == kind && ch.New == nil {
				in.change(ch)
			}
		}
	}
	in.m.tree.heed()
}

// replaced is what has to be taken up before a change: that a key's former object is gone, when
// another one has its name now; and the place of a gang that came and went unseen.
func (in *intake) replaced(ch store.Change) store.Change {
	switch old := ch.Old.(type) {
	case api.Work:
		if ch.New != nil && ch.New.GetMeta().ID != old.GetMeta().ID {
			return store.Change{Key: ch.Key, Old: old, Revision: ch.Revision}
		}
	case *api.Placement:
		if ch.New == nil && !in.m.knows(old) {
			return store.Change{Key: ch.Key, New: old, Revision: ch.Revision}
		}
	}
	return store.Change{}
}

// change brings one change of the store into the model.
func (in *intake) change(ch store.Change) {
	m := in.m
	if ch.Key.Kind != api.KindQueue {
		m.tree.heed()
	}
	switch o := ch.New.(type) {
	case *api.Zone:
		m.setZone(o)
	case *booking.Booking:
		m.dates.set(o)
	case *api.Node:
		m.setNode(o)
	case *api.Queue:
		m.setQueue(o)
	case *api.Placement:
		if len(o.Spec.Inside) > 0 {
			m.guests.stand(o)
			return
		}
		m.guests.touch(under(o.Meta.Project, o.OwnerName()))
		if w, ok := in.workloadOf(o); ok {
			m.setPlacement(o, w)
		}
	case api.Work:
		m.setTask(o)
	case nil:
		switch ch.Key.Kind {
		case api.KindZone:
			m.dropZone(ch.Key.Name)
		case booking.Kind:
			m.dates.drop(ch.Key.Name)
		case api.KindNode:
			m.dropNode(ch.Key.Name)
		case api.KindQueue:
			m.tree.drop(ch.Key.Name)
		case api.KindPlacement:
			m.dropPlacement(ch.Old.(*api.Placement))
		default:
			m.dropTask(ch.Old.GetMeta().ID)
			m.guests.touch(under(ch.Key.Project, ch.Key.Name))
		}
	}
}

// workloadOf finds what a placed gang takes: its owner's needs; nil where it is held already. The owner
// outlives its placement.
func (in *intake) workloadOf(p *api.Placement) (*sched.Workload, bool) {
	if _, held := in.m.cluster.Held(p.Spec.TaskID); held {
		return nil, true
	}
	owner, err := in.owner(p.Spec.TaskID)
	if err != nil { // the sweep of orphans sees to it
		in.m.heard.note(worse, "a placement without its owner", "placement", p.Meta.Name, "error", err)
		return nil, false
	}
	return workload(owner, in.m.shares), true
}
