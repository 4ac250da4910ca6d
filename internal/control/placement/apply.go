package placement

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
)

// writer carries orders out, each in one write that the leadership fences, and tells the model what became of them.
type writer struct {
	store store.ReadWriter
	clock clock.Clock
	ids   *id.Source
	log   *slog.Logger
	seat  *seat
}

// commits in flight at once: etcd takes three times as many fenced writes so as one by one.
const parallelCommits = 16

// carryAll carries orders out beside each other. It says whether one should be tried again.
func (w *writer) carryAll(ctx context.Context, epoch store.Epoch, orders []order) (retry bool) {
	var wg sync.WaitGroup
	var again atomic.Bool
	gate := make(chan struct{}, parallelCommits)
	for _, o := range orders {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			if retry, _ := w.carry(ctx, epoch, o); retry {
				again.Store(true)
			}
		})
	}
	wg.Wait()
	return again.Load()
}

// carry carries one order out. It says whether it should be tried again, and why it was not written.
func (w *writer) carry(ctx context.Context, epoch store.Epoch, o order) (retry bool, err error) {
	if err = o.refused; err == nil {
		err = w.write(ctx, epoch, o)
	}
	var now outcome
	w.seat.during(epoch, func(m *model) { now = o.aim.settle(m, err) })
	if err != nil {
		level := slog.LevelWarn
		if o.of != nil || fault.Is(err, fault.Conflict) {
			level = slog.LevelDebug // the next turn decides again
		}
		w.log.Log(ctx, level, "a placement was not written", "task", o.task, "error", err)
	}
	if now.doubt {
		var open []order
		w.seat.during(epoch, func(m *model) { open = turn{m: m}.doubts() })
		w.carryAll(context.WithoutCancel(ctx), epoch, open)
	}
	return now.retry, err
}

// write makes an order true: a new place, if the work is still as it was; else what is there changes.
func (w *writer) write(ctx context.Context, epoch store.Epoch, o order) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ops := []store.Op{store.Update(o.place)}
	if o.of != nil {
		w.stamp(o.place, o.of)
		ops = []store.Op{store.Unchanged(o.of.Key(), o.of.Meta.Revision), store.Create(o.place)}
	} else {
		o.place.Meta.UpdatedAt = w.clock.Now().UTC()
	}
	_, err := w.store.Commit(ctx, store.Txn{Ops: ops, Fence: epoch})
	return err
}

// stamp makes a place one of this work, from now on.
func (w *writer) stamp(p *api.Placement, of *api.Workload) {
	now := w.clock.Now().UTC()
	p.Meta = api.Meta{
		ID: w.ids.New("plc"), Name: of.Meta.ID, DisplayName: of.Meta.Name, Project: of.Meta.Project,
		Owner: of.Meta.Owner, CreatedAt: now, UpdatedAt: now,
	}
	p.Spec.TaskID, p.Spec.Attempt, p.Spec.PlacedAt = of.Meta.ID, of.Attempt+1, now
}

// Move reserves another place for a task that stands and asks it to go there, in one write; if there
// is no such place nothing changes, and the fault Conflict says why. Fault Unavailable when this
// server does not lead. Safe for concurrent use.
func (d *Desk) Move(ctx context.Context, t api.Work, wish MoveWish) (api.Move, error) {
	done, err := d.enter(ctx)
	if err != nil {
		return api.Move{}, err
	}
	defer done()
	p, err := d.gather(ctx, t)
	if err != nil {
		return api.Move{}, err
	}
	w, err := p.wished(wish)
	if err != nil {
		return api.Move{}, err
	}
	m, err := p.move(w, wish)
	if err != nil {
		return api.Move{}, err
	}
	out := p.told(w, m)
	switch {
	case wish.Preview:
		return out, nil
	case !out.Fits:
		return api.Move{}, fault.New(fault.Conflict, out.Reason, out.Message).WithHint(fault.T(
			"The task goes on where it is. Try another zone, or look with --preview.", "任务仍在原处运行。请换一个可用区，或用 --preview 查看。"))
	}
	out.Moving = true
	_, err = d.writes.carry(ctx, m.epoch, evicting(m.stands, movedBy(w, m, out.To.Zones), d.clock.Now(), nil))
	return out, err
}

// Away reserves a place without a node that is at fault, or without the whole rack, leaf or zone it is in as kind says, and asks the
// task to go there, in one write.
// Where there is none nothing changes: fault Conflict. Fault Unavailable when this server does not
// lead. Safe for concurrent use.
func (d *Desk) Away(ctx context.Context, t api.Work, node, kind string) error {
	done, err := d.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	p, err := d.gather(ctx, t)
	if err != nil {
		return err
	}
	w := p.awayFrom(node, kind)
	m, err := p.move(w, MoveWish{Away: []string{node}}) // by nodes: it may stay in its zone
	if err != nil {
		return err
	}
	if m.to == nil {
		return fault.New(fault.Conflict, m.why.Reason, m.why.Message)
	}
	_, err = d.writes.carry(ctx, m.epoch, evicting(m.stands, awayBy(w, m, node, kind), d.clock.Now(), nil))
	return err
}
