package placement

import (
	"context"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
)

// writer writes placements, each in one write that the leadership fences.
type writer struct {
	store store.ReadWriter
	clock clock.Clock
	ids   *id.Source
}

func (w *writer) update(ctx context.Context, epoch store.Epoch, p *api.Placement) error {
	p.Meta.UpdatedAt = w.clock.Now().UTC()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := w.store.Commit(ctx, store.Txn{Ops: []store.Op{store.Update(p)}, Fence: epoch})
	return err
}

// placementOf is a new place of work.
func (w *writer) placementOf(t *api.Workload, roles []api.RoleAssignment) *api.Placement {
	now := w.clock.Now().UTC()
	return &api.Placement{
		Meta: api.Meta{
			ID: w.ids.New("plc"), Name: t.Meta.ID, DisplayName: t.Meta.Name, Project: t.Meta.Project,
			Owner: t.Meta.Owner, CreatedAt: now, UpdatedAt: now,
		},
		Spec: api.PlacementSpec{TaskID: t.Meta.ID, Attempt: t.Attempt + 1, PlacedAt: now, Roles: roles},
	}
}

// write makes a placement true, if the task is still as it was.
func (w *writer) write(ctx context.Context, epoch store.Epoch, t *api.Workload, p *api.Placement) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := w.store.Commit(ctx, store.Txn{
		Ops:   []store.Op{store.Unchanged(t.Key(), t.Meta.Revision), store.Create(p)},
		Fence: epoch,
	})
	return err
}
