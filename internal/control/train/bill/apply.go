package bill

import (
	"context"
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/store"
)

// History is where bills are kept.
type History interface {
	history.Usage
	PutRun(ctx context.Context, r history.Run) error
}

// Book writes bills. Safe for concurrent use.
type Book struct {
	store   store.Reader
	history History
	node    func(number uint32) *api.Node

	mu      sync.Mutex
	written map[string]uint64 // task id → what the rows say that this leader wrote
}

// NewBook makes a book; node gives the node of a number, nil where it is not known.
func NewBook(s store.Reader, h History, node func(number uint32) *api.Node) *Book {
	return &Book{store: s, history: h, node: node, written: map[string]uint64{}}
}

// Forget is for a task that is gone.
func (b *Book) Forget(taskID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.written, taskID)
}

// Usage writes what each member used so far: a row from its start, closed at its end.
func (b *Book) Usage(ctx context.Context, g *gang.Gang) error {
	task, all := g.Task, append(g.Everybody(), g.Surplus...)
	sum := sumOf(all, g.Others)
	b.mu.Lock()
	written, ok := b.written[task.Meta.ID]
	b.mu.Unlock()
	if ok && written == sum { // another generation of the same launchers
		return nil
	}
	rows := make([]history.UsageRow, 0, len(all))
	for i := range all {
		if row, ok := b.row(ctx, task, &all[i]); ok {
			rows = append(rows, row)
		}
	}
	ended := map[string]*engine.Exit{}
	for _, o := range g.Others {
		if o.Exit != nil {
			ended[string(o.Name)] = o.Exit
		}
	}
	if len(ended) > 0 { // of earlier attempts, or of a placement that went away
		known, err := b.history.UsageOf(ctx, task.Meta.ID)
		if err != nil {
			return err
		}
		for _, row := range known {
			if exit := ended[row.Replica]; exit != nil && row.Stop.IsZero() {
				closeRow(&row, exit)
				rows = append(rows, row)
			}
		}
	}
	if err := b.history.PutUsage(ctx, rows...); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written[task.Meta.ID] = sum
	return nil
}

func (b *Book) row(ctx context.Context, task *api.TrainingTask, m *gang.Member) (history.UsageRow, bool) {
	var devices []api.Device
	if n := b.node(m.Number); n != nil {
		devices = gang.DevicesOf(n, m.Devices)
	}
	row, ok := rowOf(task, m, devices)
	if !ok {
		return row, false
	}
	if o, err := b.store.Get(ctx, api.Key{Kind: api.KindZone, Name: row.Zone}, 0); err == nil {
		row.PriceHour = priceOf(o.(*api.Zone), &row)
	}
	if m.Exit != nil {
		closeRow(&row, m.Exit)
	}
	return row, true
}

// Run keeps what the task teaches, with its status as it will be. One that never ran teaches nothing.
func (b *Book) Run(ctx context.Context, g *gang.Gang, status api.TrainingTaskStatus) error {
	rows, err := b.history.UsageOf(ctx, g.Task.Meta.ID)
	if err != nil || len(rows) == 0 {
		return err
	}
	if err := b.closeRest(ctx, rows, status); err != nil {
		return err
	}
	task := *g.Task
	task.Status = status
	return b.history.PutRun(ctx, history.RunOf(&task, g.Members.Nodes(), history.Together(rows)))
}

// closeRest ends what is left open of a task that ends: stays of replicas that nobody knows any more, whose end nobody saw. They
// cost until the task ended, and not for ever.
func (b *Book) closeRest(ctx context.Context, rows []history.UsageRow, status api.TrainingTaskStatus) error {
	if status.FinishedAt == nil {
		return nil
	}
	var open []history.UsageRow
	for i := range rows {
		if r := &rows[i]; r.Stop.IsZero() {
			r.Stop, r.ExitCode, r.Reason = *status.FinishedAt, -1, engine.ReasonLauncherLost
			if r.Stop.Before(r.Start) {
				r.Stop = r.Start
			}
			open = append(open, *r)
		}
	}
	return b.history.PutUsage(ctx, open...)
}
