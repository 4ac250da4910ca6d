package serve

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/store"
)

const (
	writeFor = 10 * time.Second
	// mostOps bounds what one commit takes away; the rest has its turn after it.
	mostOps = 60
)

// apply carries a plan out: one fenced commit, guarded by the service's revision. What it has no room for is done by the
// turn that the commit itself calls for.
func (c *Controller) apply(ctx context.Context, s *seen, p *plan) error {
	now := c.cfg.Clock.Now().UTC()
	var ops []store.Op
	for _, r := range p.drain {
		next := store.Clone(r)
		next.Spec.DrainAt, next.Meta.UpdatedAt = &now, now
		ops = append(ops, store.Update(next))
	}
	for _, r := range p.end {
		next := store.Clone(r)
		next.Meta.DeletedAt, next.Meta.UpdatedAt = &now, now
		ops = append(ops, store.Update(next))
	}
	ops = ops[:min(len(ops), mostOps)]
	for _, m := range p.make {
		ops = append(ops, store.Create(c.replica(s, &p.status, m, now)))
	}
	if p.endpoints != nil {
		ops = append(ops, c.publish(s, p.endpoints, now))
	}
	switch {
	case p.erase:
		if err := c.cfg.EraseBytes(ctx, s.service.Meta.ID); err != nil { // the log of its requests
			return err
		}
		ops = append(ops, store.Delete(api.KeyOf(s.service), s.service.Meta.Revision))
		if s.endpoints != nil {
			ops = append(ops, store.Delete(api.KeyOf(s.endpoints), s.endpoints.Meta.Revision))
		}
	case !reflect.DeepEqual(p.status, s.service.Status):
		next := store.Clone(s.service)
		next.Status, next.Meta.UpdatedAt = p.status, now
		ops = append(ops, store.Update(next))
	case len(ops) == 0:
		return nil
	default:
		ops = append(ops, store.Unchanged(api.KeyOf(s.service), s.service.Meta.Revision))
	}
	ctx, cancel := context.WithTimeout(ctx, writeFor)
	defer cancel()
	if _, err := c.cfg.Store.Commit(ctx, store.Txn{Ops: ops, Fence: c.epoch}); err != nil {
		return fmt.Errorf("write the service: %w", err)
	}
	return c.tell(ctx, s, p.events)
}

// replica is a new one of a revision.
func (c *Controller) replica(s *seen, status *serving.ServiceStatus, m made, now time.Time) *serving.ServiceReplica {
	w := s.service.Workload()
	name := replicaName(s.service.Meta.Name, m.serial)
	return &serving.ServiceReplica{
		Meta: api.Meta{
			ID: c.ids.New(api.MustInfo(serving.ReplicaKind).IDPrefix), Name: name, DisplayName: name, Project: s.service.Meta.Project,
			Owner: s.service.Meta.Owner, CreatedAt: now, UpdatedAt: now,
		},
		Spec: serving.ServiceReplicaSpec{
			Service: s.service.Meta.Name, ServiceID: s.service.Meta.ID, Revision: m.revision, Zone: m.zone, Template: template(s.service, status, m.revision),
			Queue: w.Queue, Priority: w.Priority,
		},
		Status: serving.ServiceReplicaStatus{Phase: api.PhasePending, Reason: "Submitted", Message: fault.T("Waiting for a place.", "等待调度。")},
	}
}

// publish writes where the service answers.
func (c *Controller) publish(s *seen, spec *serving.ServiceEndpointsSpec, now time.Time) store.Op {
	if s.endpoints != nil {
		next := store.Clone(s.endpoints)
		next.Spec, next.Meta.UpdatedAt = *spec, now
		return store.Update(next)
	}
	return store.Create(&serving.ServiceEndpoints{
		Meta: api.Meta{
			ID: c.ids.New(api.MustInfo(serving.EndpointsKind).IDPrefix), Name: s.service.Meta.Name, DisplayName: s.service.Meta.Name,
			Owner: s.service.Meta.Owner, CreatedAt: now, UpdatedAt: now,
		},
		Spec: *spec,
	})
}

func (c *Controller) tell(ctx context.Context, s *seen, events []event) error {
	rows := make([]history.Event, 0, len(events))
	for _, e := range events {
		row := history.Event{
			Time: c.cfg.Clock.Now().UTC(), Kind: serving.Kind, Project: s.service.Meta.Project, Name: s.service.Meta.Name, ID: s.service.Meta.ID,
			Type: "Normal", Reason: e.reason, Message: e.message, Actor: strings.ToLower(string(serving.Kind)), Dedup: s.service.Meta.ID + "/" + e.once,
		}
		if e.warning {
			row.Type = "Warning"
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil
	}
	return c.cfg.History.AddEvents(ctx, rows...)
}
