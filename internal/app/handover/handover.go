package handover

import (
	"context"
	"log/slog"
	"math/bits"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/conf"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine"
	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/keeper"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Desk hands gangs over. Make one for each server; Run is the leader's.
type Desk struct {
	Store interface {
		store.Reader
		Commit(context.Context, store.Txn) (int64, error)
	}
	Work  func(ctx context.Context, id string) (api.Work, error)
	Zones map[string]*keeper.Gangs
	Clock clock.Clock
	Log   *slog.Logger
}

const (
	// every is how often it is looked for gangs that were let in, have to leave, or are over.
	every = 5 * time.Second
	// grace is what processes have to save in when the keeper of a queue wants its share back.
	grace = api.Duration(30 * time.Second)
)

// Open makes the queues that settings name those of their clusters.
func (d *Desk) Open(clusters map[string]*kubeengine.Cluster, settings []string) {
	d.Zones = map[string]*keeper.Gangs{}
	for _, text := range settings {
		zone, kind, queue, _ := conf.ParseGangs(text)
		if c := clusters[zone]; c != nil {
			d.Zones[zone] = &keeper.Gangs{Cluster: c, Keeper: keeper.Keeper(kind), Queue: queue, Since: d.since, Of: d.gang}
			c.Gangs = d.Zones[zone]
		}
	}
}

// place is where some work stands; nil: nowhere.
func (d *Desk) place(ctx context.Context, project, id string) (*api.Placement, error) {
	o, err := d.Store.Get(ctx, api.Key{Kind: api.KindPlacement, Project: project, Name: id}, 0)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return o.(*api.Placement), nil
}

// gang is what stands in the zone of a replica, of the gang that it is of.
func (d *Desk) gang(ctx context.Context, r engine.Replica) (keeper.Gang, error) {
	work, err := d.Work(ctx, r.TaskID)
	if err != nil {
		return keeper.Gang{}, err
	}
	p, err := d.place(ctx, r.Project, r.TaskID)
	if err != nil {
		return keeper.Gang{}, err
	}
	if p == nil {
		return keeper.Gang{}, errNoPlace
	}
	nodes, err := d.nodes(ctx, r.Zone)
	if err != nil {
		return keeper.Gang{}, err
	}
	w := work.Workload()
	return gangOf(&w, p, nodes), nil
}

var errNoPlace = fault.New(fault.Unavailable, "NotYet", fault.T("Its place is not known here yet.", "尚不知其调度位置。"))

// since is the first attempt in the place of a replica.
func (d *Desk) since(ctx context.Context, r engine.Replica) (int, error) {
	p, err := d.place(ctx, r.Project, r.TaskID)
	if err != nil {
		return 0, err
	}
	if p == nil {
		return 0, errNoPlace
	}
	return p.Spec.Attempt, nil
}

// nodes are those of a zone, by number.
func (d *Desk) nodes(ctx context.Context, zone string) (map[uint32]*api.Node, error) {
	snap, err := d.Store.List(ctx, api.KindNode, "", 0)
	if err != nil {
		return nil, err
	}
	out := map[uint32]*api.Node{}
	snap.Ascend("", func(o api.Object) bool {
		if n := o.(*api.Node); n.Spec.Zone == zone {
			out[n.Spec.Number] = n
		}
		return true
	})
	return out, nil
}

// gangOf is the part of a gang that stands on these nodes: a set for each role, at what one of its replicas has.
func gangOf(w *api.Workload, p *api.Placement, nodes map[uint32]*api.Node) keeper.Gang {
	out := keeper.Gang{TaskID: w.Meta.ID, Task: w.Meta.Name, Owner: w.Meta.Owner, Since: p.Spec.Attempt, Priority: w.Priority}
	for _, a := range p.Spec.Roles {
		set := keeper.GangSet{Role: a.Role}
		if role := w.Role(a.Role); role != nil {
			set.Resources = role.Resources
		}
		for _, s := range a.Slots {
			n := nodes[s.Node]
			if n == nil {
				continue
			}
			if set.Count++; set.Count > 1 {
				continue
			}
			for mask := s.Devices; mask != 0; mask &= mask - 1 {
				if i := bits.TrailingZeros64(mask); i < len(n.Spec.Devices) {
					set.Devices = append(set.Devices, n.Spec.Devices[i].UUID)
				}
			}
		}
		if set.Count > 0 {
			out.Sets = append(out.Sets, set)
		}
	}
	return out
}

// Run takes back what is over, has those look again (wake) that were let in, and asks gangs to leave that the keeper of their queue wants out.
func (d *Desk) Run(ctx context.Context, epoch store.Epoch, wake func(id string)) error {
	failed := map[string]string{} // why, by zone, as it was logged last
	for len(d.Zones) > 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-d.Clock.After(every):
		}
		for zone, g := range d.Zones {
			err := d.sweep(ctx, epoch, g, wake)
			if reason := fault.ReasonOf(err); err != nil && ctx.Err() == nil && failed[zone] != reason {
				d.Log.Warn("the queues of a cluster can't be asked; trying again", "zone", zone, "reason", reason, "error", err)
				failed[zone] = reason
			} else if err == nil {
				delete(failed, zone)
			}
		}
	}
	<-ctx.Done()
	return nil
}

func (d *Desk) sweep(ctx context.Context, epoch store.Epoch, g *keeper.Gangs, wake func(id string)) error {
	stands := func(id string, since int) bool {
		work, err := d.Work(ctx, id)
		if fault.Is(err, fault.NotFound) {
			return false
		}
		if err != nil {
			return true // what is not known is not over
		}
		p, err := d.place(ctx, work.GetMeta().Project, id)
		return err != nil || p != nil && p.Spec.Attempt == since
	}
	return g.Sweep(ctx, stands, wake, func(id, why string) {
		if err := d.leave(ctx, epoch, id, g, why); err != nil && fault.ReasonOf(err) != "Stale" {
			d.Log.Warn("a gang could not be asked to leave; trying again", "task", id, "error", err)
		}
	})
}

// leave asks a gang to save and give up its place; it waits anew, for the queue too.
func (d *Desk) leave(ctx context.Context, epoch store.Epoch, id string, g *keeper.Gangs, why string) error {
	work, err := d.Work(ctx, id)
	if err != nil {
		return err
	}
	p, err := d.place(ctx, work.GetMeta().Project, id)
	if err != nil || p == nil || p.Spec.Evict != nil {
		return err
	}
	next := store.Clone(p)
	next.Spec.Evict = &api.Eviction{Reason: "Preempted", At: d.Clock.Now().UTC(), Grace: grace, Message: fault.T(
		"%s wants the share of queue %s back (%s): it saves, and waits again.", "%s 要收回队列 %s 的份额（%s）：保存后重新排队。", g.Keeper, g.Queue, why)}
	_, err = d.Store.Commit(ctx, store.Txn{Ops: []store.Op{store.Update(next)}, Fence: epoch})
	return err
}
