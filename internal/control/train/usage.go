package train

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/history"
)

// writeUsage writes what each member used so far: a row from its start, closed at its end. Rows are
// keyed by replica, so writing twice is writing once. It comes before the commit that could let a
// record go: a crash in between writes the same rows again.
func (c *Controller) writeUsage(ctx context.Context, s seen) error {
	rows := make([]history.UsageRow, 0, len(s.members))
	for i := range s.members {
		if row, ok := c.usageRow(s, i); ok {
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
	return c.cfg.History.PutUsage(ctx, rows...)
}

// usageRow is member i's row; ok is false while it has neither started nor ended.
func (c *Controller) usageRow(s seen, i int) (history.UsageRow, bool) {
	m := &s.members[i]
	if m.started.IsZero() && m.exit == nil {
		return history.UsageRow{}, false
	}
	r := c.replica(s, i, s.task)
	row := history.UsageRow{
		Replica: string(m.name), TaskID: r.TaskID, Project: r.Project, Owner: r.Owner, Zone: r.Zone, Node: r.Node,
		Devices: len(r.Devices), Type: r.Resources.Accelerators.Type, CPU: r.Resources.CPU, Memory: r.Resources.Memory,
		Start: m.started, PriceHour: c.price(r),
	}
	if len(r.Devices) > 0 {
		row.Type = r.Devices[0].Type
	}
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

func (c *Controller) price(r engine.Replica) float64 {
	o, err := c.cfg.Store.Get(context.Background(), api.Key{Kind: api.KindZone, Name: r.Zone}, 0)
	if err != nil {
		return 0
	}
	p := o.(*api.Zone).Spec.Price
	return p.DeviceHour*float64(len(r.Devices)) + p.CoreHour*float64(r.Resources.CPU)/1000 +
		p.MemoryGBHour*float64(r.Resources.Memory)/1e9
}
