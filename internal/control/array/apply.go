package array

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	kind "github.com/fermi-cluster/fermi/api/v1/array"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/store"
)

const writeFor = 10 * time.Second

// apply carries a plan out: one fenced commit, guarded by the array's revision. What it has no room for is done by the turn that the
// commit itself calls for.
func (c *Controller) apply(ctx context.Context, s *seen, p *plan) error {
	now := c.cfg.Clock.Now().UTC()
	var ops []store.Op
	for _, t := range p.stop {
		next := store.Clone(t)
		next.Spec.Stop, next.Meta.UpdatedAt = true, now
		ops = append(ops, store.Update(next))
	}
	for _, index := range p.make {
		ops = append(ops, store.Create(c.taskOf(s.array, index, now)))
	}
	switch {
	case p.erase:
		ops = append(ops, store.Delete(api.KeyOf(s.array), s.array.Meta.Revision))
	case !reflect.DeepEqual(p.status, s.array.Status):
		next := store.Clone(s.array)
		next.Status, next.Meta.UpdatedAt = p.status, now
		ops = append(ops, store.Update(next))
	case len(ops) == 0:
		return nil
	default:
		ops = append(ops, store.Unchanged(api.KeyOf(s.array), s.array.Meta.Revision))
	}
	ctx, cancel := context.WithTimeout(ctx, writeFor)
	defer cancel()
	if _, err := c.cfg.Store.Commit(ctx, store.Txn{Ops: ops, Fence: c.epoch}); err != nil {
		return fmt.Errorf("write the array: %w", err)
	}
	return c.tell(ctx, s, p.events)
}

// taskOf is the task of an index.
func (c *Controller) taskOf(a *kind.TaskArray, index int, now time.Time) *api.TrainingTask {
	spec := store.Clone(&api.TrainingTask{Spec: a.Spec.TrainingTaskSpec}).Spec
	spec.Stop = false
	all, _ := kind.Parse(a.Spec.Indexes) // the door let it in: it can be read
	for i := range spec.Roles {
		r := &spec.Roles[i]
		r.Env = append(r.Env,
			api.EnvVar{Name: kind.IndexVariable, Value: strconv.Itoa(index)}, api.EnvVar{Name: kind.NameVariable, Value: a.Meta.Name}, api.EnvVar{Name: kind.CountVariable, Value: strconv.Itoa(len(all))},
			api.EnvVar{Name: kind.FirstVariable, Value: strconv.Itoa(slices.Min(all))}, api.EnvVar{Name: kind.LastVariable, Value: strconv.Itoa(slices.Max(all))})
	}
	labels := map[string]string{}
	maps.Copy(labels, a.Meta.Labels)
	labels[kind.Label] = a.Meta.Name
	display := a.Meta.DisplayName
	if most := 128 - 8; len([]rune(display)) > most {
		display = string([]rune(display)[:most])
	}
	return &api.TrainingTask{
		Meta: api.Meta{
			ID: c.ids.New(api.MustInfo(api.KindTrainingTask).IDPrefix), Name: a.TaskName(index), DisplayName: display + "-" + strconv.Itoa(index),
			Project: a.Meta.Project, Owner: a.Meta.Owner, Labels: labels, CreatedAt: now, UpdatedAt: now,
		},
		Spec:   spec,
		Status: api.TrainingTaskStatus{Phase: api.PhasePending, Reason: "Submitted", Message: fault.T("Waiting for a place.", "等待调度。")},
	}
}

func (c *Controller) tell(ctx context.Context, s *seen, events []event) error {
	rows := make([]history.Event, 0, len(events))
	for _, e := range events {
		row := history.Event{
			Time: c.cfg.Clock.Now().UTC(), Kind: kind.Kind, Project: s.array.Meta.Project, Name: s.array.Meta.Name, ID: s.array.Meta.ID,
			Type: "Normal", Reason: e.reason, Message: e.message, Actor: "array", Dedup: s.array.Meta.ID + "/" + e.once,
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
