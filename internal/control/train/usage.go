package train

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/sched/cost"
)

// writeUsage writes what each member used so far: a row from its start, closed at its end. Rows are
// keyed by replica, so writing twice is writing once. It comes before the commit that could let a
// record go: a crash in between writes the same rows again.
func (c *Controller) writeUsage(ctx context.Context, s seen) error {
	all := append(s.everybody(), s.surplus...)
	bill := billOf(all, s.others)
	c.mu.Lock()
	written, ok := c.bills[s.task.Meta.ID]
	c.mu.Unlock()
	if ok && written == bill { // another generation of the same launchers
		return nil
	}
	rows := make([]history.UsageRow, 0, len(all))
	for i := range all {
		if row, ok := c.usageRow(s.task, &all[i]); ok {
			rows = append(rows, row)
		}
	}
	ended := map[string]*engine.Exit{}
	for _, o := range s.others {
		if o.Exit != nil {
			ended[string(o.Name)] = o.Exit
		}
	}
	if len(ended) > 0 { // of earlier attempts, or of a placement that went away
		known, err := c.cfg.History.UsageOf(ctx, s.task.Meta.ID)
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
	if err := c.cfg.History.PutUsage(ctx, rows...); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loop != nil {
		c.bills[s.task.Meta.ID] = bill
	}
	return nil
}

// billOf tells rows that differ apart: who began and ended when.
func billOf(all []member, others []engine.Observation) uint64 {
	h := fnv.New64a()
	add := func(name engine.Name, started time.Time, exit *engine.Exit) {
		var times [16]byte
		binary.LittleEndian.PutUint64(times[:], uint64(started.UnixNano()))
		if exit != nil {
			binary.LittleEndian.PutUint64(times[8:], uint64(exit.At.UnixNano()))
		}
		h.Write([]byte(name))
		h.Write(times[:])
	}
	for i := range all {
		add(all[i].name, all[i].observed.Started, all[i].exit)
	}
	for _, o := range others {
		add(o.Name, o.Started, o.Exit)
	}
	return h.Sum64()
}

// writeRun keeps what the task teaches, by task: writing twice is writing once. One that never ran
// teaches nothing.
func (c *Controller) writeRun(ctx context.Context, s seen, p plan) error {
	rows, err := c.cfg.History.UsageOf(ctx, s.task.Meta.ID)
	if err != nil || len(rows) == 0 {
		return err
	}
	nodes := map[string]bool{}
	for i := range s.members {
		nodes[s.members[i].node] = true
	}
	task := *s.task
	task.Status = p.status
	return c.cfg.History.PutRun(ctx, history.RunOf(&task, len(nodes), history.Together(rows)))
}

// usageRow is a member's row; ok is false while it has neither started nor ended.
func (c *Controller) usageRow(task *api.TrainingTask, m *member) (history.UsageRow, bool) {
	if m.observed.Started.IsZero() && m.exit == nil {
		return history.UsageRow{}, false
	}
	r := c.replica(m, task)
	if r.Inside != "" {
		r.Devices = nil // they are in the environment's row
	}
	row := history.UsageRow{
		Replica: string(m.name), TaskID: r.TaskID, Project: r.Project, Owner: r.Owner, Zone: r.Zone, Node: r.Node,
		Devices: len(r.Devices), Type: r.Resources.Accelerators.Type, CPU: r.Resources.CPU, Memory: r.Resources.Memory,
		Thousandths: int64(len(r.Devices)) * r.Resources.Accelerators.Share.Of(), Spot: task.Spec.Preemptible, Start: m.observed.Started,
	}
	if len(r.Devices) > 0 {
		row.Type = r.Devices[0].Type
	}
	row.PriceHour = c.price(row)
	if m.exit != nil {
		closeRow(&row, m.exit)
	}
	return row, true
}

func closeRow(row *history.UsageRow, exit *engine.Exit) {
	row.Stop, row.ExitCode, row.Reason = exit.At, exit.Code, exit.Reason
	row.CPUTime, row.PeakBytes = exit.CPUTime, api.Bytes(exit.PeakBytes)
	if row.Start.IsZero() || row.Start.After(row.Stop) {
		row.Start = row.Stop // it never ran
	}
}

// price is what the replica costs an hour at its start.
func (c *Controller) price(r history.UsageRow) float64 {
	o, err := c.cfg.Store.Get(context.Background(), api.Key{Kind: api.KindZone, Name: r.Zone}, 0)
	if err != nil {
		return 0
	}
	part := cost.Part{CPU: r.CPU, Memory: r.Memory, DeviceType: r.Type, Devices: r.Devices, Thousandths: r.Thousandths}
	return cost.ZoneOf(o.(*api.Zone)).Rate(part, r.Start, r.Spot).Total().Float()
}
