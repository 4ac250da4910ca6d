package restore

import (
	"context"
	"log/slog"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Aftermath is a restored folder's first leader, with what it needs.
type Aftermath struct {
	Dir     string // of the note
	Store   *store.Store
	History history.History
	Log     *slog.Logger
	Clock   clock.Clock
}

// Settle does once, before anything is judged, what the one who restored the folder wished for unfinished work.
func (p Aftermath) Settle(ctx context.Context, epoch store.Epoch) error {
	n, err := Read(p.Dir)
	if err != nil || n == nil || n.Work == "" {
		return err
	}
	if err := p.closeStays(ctx, n); err != nil {
		return err
	}
	next := p.stopUnfinished
	if n.Work == GoOn {
		next = p.leavePlaces
	}
	if err := next(ctx, epoch, n); err != nil {
		return err
	}
	n.Work = ""
	return n.Write(p.Dir)
}

// closeStays ends the stays that went on when the backup was taken: none of those replicas is of this server, and what became of
// them is not known here. Work that goes on does so with new replicas, which have stays of their own.
func (p Aftermath) closeStays(ctx context.Context, n *Note) error {
	var open []history.UsageRow
	all := history.UsageSpan{From: time.Unix(0, 0), To: n.Taken.AddDate(100, 0, 0)} // also of a clock that was wrong then
	if err := p.History.EachUsage(ctx, all, func(r history.UsageRow) {
		if !r.Stop.IsZero() {
			return
		}
		r.Stop, r.ExitCode, r.Reason = n.Taken, -1, "Restored"
		if r.Stop.Before(r.Start) {
			r.Stop = r.Start
		}
		open = append(open, r)
	}); err != nil || len(open) == 0 {
		return err
	}
	p.Log.Info("stays that went on when the backup was taken end with it", "stays", len(open), "taken", n.Taken)
	return p.History.PutUsage(ctx, open...)
}

// leavePlaces lets tasks that ran begin again from their last checkpoint: none of their replicas is of this server, and that is no
// failure which counts against their restarts.
func (p Aftermath) leavePlaces(ctx context.Context, epoch store.Epoch, n *Note) error {
	now, err := p.Store.Now(ctx)
	if err != nil {
		return err
	}
	all, err := p.Store.List(ctx, api.KindPlacement, "", now)
	if err != nil {
		return err
	}
	var list []*api.Placement
	all.Ascend("", func(o api.Object) bool {
		place := o.(*api.Placement)
		if kind, ok := api.KindOfID(place.Spec.TaskID); ok && kind == api.KindTrainingTask && place.Spec.Evict == nil {
			list = append(list, place)
		}
		return true
	})
	for _, place := range list {
		next := store.Clone(place)
		next.Spec.Shrink, next.Spec.Lost = nil, nil
		next.Spec.Evict = &api.Eviction{Reason: "Restored", At: p.Clock.Now().UTC(), Message: fault.T(
			"The folder was restored from a backup of %s: it waits for a place, and goes on from its last checkpoint.", "数据目录由 %s 的备份恢复：等待重新调度，从最近的检查点继续。", n.Taken.UTC().Format(time.RFC3339))}
		if _, err := p.Store.Commit(ctx, store.Txn{Ops: []store.Op{store.Update(next)}, Fence: epoch, Urgent: true}); err != nil && fault.ReasonOf(err) != "Stale" {
			return err
		} else if err != nil {
			return p.leavePlaces(ctx, epoch, n)
		}
	}
	return nil
}

func (p Aftermath) stopUnfinished(ctx context.Context, epoch store.Epoch, n *Note) error {
	now, err := p.Store.Now(ctx)
	if err != nil {
		return err
	}
	all, err := p.Store.List(ctx, api.KindTrainingTask, "", now)
	if err != nil {
		return err
	}
	var list []*api.TrainingTask
	all.Ascend("", func(o api.Object) bool {
		t := o.(*api.TrainingTask)
		waits := t.Status.Phase == api.PhasePending && t.Status.Attempt == 0
		if !t.Status.Phase.Finished() && !t.Spec.Stop && (n.Work == StopAll || !waits) {
			list = append(list, t)
		}
		return true
	})
	var told []history.Event
	for _, t := range list {
		next := store.Clone(t)
		next.Spec.Stop = true
		if _, err := p.Store.Commit(ctx, store.Txn{Ops: []store.Op{store.Update(next)}, Fence: epoch, Urgent: true}); err != nil && fault.ReasonOf(err) != "Stale" {
			return err
		} else if err != nil {
			return p.stopUnfinished(ctx, epoch, n) // a user was faster: look again
		}
		told = append(told, history.Event{
			Time: p.Clock.Now().UTC(), Kind: api.KindTrainingTask, Project: t.Meta.Project, Name: t.Meta.Name, ID: t.Meta.ID, Type: "Normal", Reason: "StoppedByRestore",
			Message: fault.T("The folder was restored from a backup of %s, and who restored it had unfinished tasks stopped.", "数据目录由 %s 的备份恢复，恢复时选择了停止未结束的任务。", n.Taken.UTC().Format(time.RFC3339)),
		})
	}
	p.Log.Info("unfinished tasks of a restored folder are stopped", "tasks", len(list), "wish", string(n.Work))
	if len(told) > 0 {
		return p.History.AddEvents(ctx, told...)
	}
	return nil
}
