package placement

import (
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/sched"
)

// Desk answers what is asked about places while its server plans: why one waits, what would become of another, where one could
// go. Safe for concurrent use.
type Desk struct {
	seat    *seat
	store   store.Reader
	clock   clock.Clock
	quantum time.Duration
	writes  *writer
	// previews bounds how many are worked on at once.
	previews chan struct{}
}

// Why explains a waiting task; ok is false when this server does not lead or it does not wait.
func (d *Desk) Why(taskID string) (why sched.Explanation, ok bool) {
	project := ""
	d.seat.with(func(m *model) {
		if t := m.tasks[taskID]; t != nil {
			project = t.Meta.Project
		}
	})
	top := d.topPriority(project)
	d.seat.with(func(m *model) { why, ok = m.why(d.clock.Now(), taskID, top) })
	return why, ok
}

func (m *model) why(now time.Time, taskID string, top int) (sched.Explanation, bool) {
	if why, ok := m.guests.why(taskID); ok {
		return why, true
	}
	why, ok := sched.Explain(now, m.cluster, m.queues, taskID, top)
	return m.dates.why(m, m.tasks[taskID], why, now), ok
}

// Had says which versions that work reads were on its nodes already when it was placed there; ok is false where none is known of, or this server does not lead.
func (d *Desk) Had(id string) (text fault.Text, ok bool) {
	d.seat.with(func(m *model) { text, ok = m.had.Had(id) })
	return text, ok
}

// Capacities says what there is of each device type; ok is false when this server does not lead.
func (d *Desk) Capacities() (out []sched.Capacity, ok bool) {
	ok = d.seat.with(func(m *model) { out = sched.Capacities(m.cluster) })
	return out, ok
}
