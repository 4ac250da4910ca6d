package bill

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/sched/cost"
)

// rowOf is a member's row without its price; ok is false while it has neither started nor ended.
func rowOf(task *api.TrainingTask, m *gang.Member, devices []api.Device) (row history.UsageRow, ok bool) {
	if m.Observed.Started.IsZero() && m.Exit == nil {
		return row, false
	}
	var asked api.Resources
	if m.Lender.TaskID != "" { // they are in the environment's row
		devices = nil
	} else {
		for i := range task.Spec.Roles {
			if task.Spec.Roles[i].Name == m.Role {
				asked = task.Spec.Roles[i].Resources
			}
		}
	}
	row = history.UsageRow{
		Replica: string(m.Name), TaskID: task.Meta.ID, Project: task.Meta.Project, Owner: task.Meta.Owner, Zone: m.Zone, Node: m.Node,
		Devices: len(devices), Type: asked.Accelerators.Type, CPU: asked.CPU, Memory: asked.Memory,
		Thousandths: int64(len(devices)) * asked.Accelerators.Share.Of(), Spot: task.Spec.Preemptible, Start: m.Observed.Started,
	}
	if len(devices) > 0 {
		row.Type = devices[0].Type
	}
	return row, true
}

// priceOf is what a replica costs an hour at its start.
func priceOf(zone *api.Zone, r *history.UsageRow) float64 {
	part := cost.Part{CPU: r.CPU, Memory: r.Memory, DeviceType: r.Type, Devices: r.Devices, Thousandths: r.Thousandths}
	return cost.ZoneOf(zone).Rate(part, r.Start, r.Spot).Total().Float()
}

func closeRow(row *history.UsageRow, exit *engine.Exit) {
	row.Stop, row.ExitCode, row.Reason = exit.Ended(row.Start), exit.Code, exit.Reason
	row.CPUTime, row.PeakBytes = exit.CPUTime, api.Bytes(exit.PeakBytes)
	if row.Start.IsZero() || row.Start.After(row.Stop) {
		row.Start = row.Stop // it never ran
	}
}

// sumOf tells rows that differ apart: who began and ended when.
func sumOf(all gang.Members, others []engine.Observation) uint64 {
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
		add(all[i].Name, all[i].Observed.Started, all[i].Exit)
	}
	for _, o := range others {
		add(o.Name, o.Started, o.Exit)
	}
	return h.Sum64()
}
