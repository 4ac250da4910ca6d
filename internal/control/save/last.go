package save

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// The last save. A launcher whose ranks have ended waits, for as long as its grace lasts, until what they
// hold is persisted: the newest step that all hold is due at once, and nobody is kept longer than that takes.

// parting is where the launchers that wait stand.
type parting int

const (
	nobodyParts parting = iota
	awaited             // a newer step may yet become whole
	complete            // none will: the newest that all hold is the last
	hopeless            // whoever is needed is gone
)

// partingOf judges who waits, common being the newest step that all hold.
func partingOf(u *gang.Unit, generation, common int64) parting {
	if !u.Members.Any(func(m *gang.Member) bool { return m.Waits() }) {
		return nobodyParts
	}
	newest, all, patient := int64(0), true, true
	for i := range u.Members {
		m := &u.Members[i]
		switch {
		case m.Ended() || m.Attached && m.Said.Generation != generation:
			return hopeless
		case !m.Attached: // it comes back, or is found lost
			return awaited
		case !m.Waits():
			all = false
		default:
			newest = max(newest, m.Said.Keeping.File, slices.Max(append([]int64{0}, m.Said.Held...)))
			patient = patient && (m.Said.Keeping.Ended == engine.ReasonSucceeded || m.Said.Keeping.Ended == engine.ReasonStopped && u.Leaves())
		}
	}
	if u.Task.Meta.DeletedAt != nil {
		return hopeless
	}
	if all || common >= newest || !patient {
		return complete
	}
	return awaited
}

// unkept says that those who wait do so for nothing: there is no step that all hold, or the task keeps none.
func unkept(u *gang.Unit, generation int64, keeps bool) bool {
	p := partingOf(u, generation, 0)
	return p == hopeless || p == complete || p == awaited && !keeps
}

// letGo decides whether those who wait may go, and tells what became of the last step.
func (d *decision) letGo(u *gang.Unit, v *saving, mark *link.Watermark, p parting) {
	if p == nobodyParts || p == awaited || p == complete && (v.order != nil || v.busyAny()) {
		return
	}
	mark.Last = true
	if v.parted {
		return
	}
	v.parted = true
	d.plan.event = v.lastEvent(u, mark.Step, p)
}

func (v *saving) busyAny() bool {
	for _, busy := range v.busy {
		if busy {
			return true
		}
	}
	return false
}

// lastEvent says what was saved because of the end, or what was not and why; nil: nothing was to be.
func (v *saving) lastEvent(u *gang.Unit, step int64, p parting) *event {
	var in []string
	durable := u.Rendezvous.Restore
	for _, tier := range tiers {
		if done := v.committed[tier].Step; done > 0 {
			durable = max(durable, done)
			if done == v.urgent {
				in = append(in, tier)
			}
		}
	}
	once := "last-" + strconv.Itoa(u.Generation)
	switch {
	case len(in) > 0:
		return &event{false, "LastStepSaved", fault.T("Step %d was persisted (%s) before its processes went.", "第 %d 步已在进程退出前持久化（%s）。", v.urgent, strings.Join(in, ", ")), once}
	case step > durable && (v.urgent > 0 || p == hopeless && u.Leaves() && u.Task.Meta.DeletedAt == nil):
		why := v.lastFault(u.Members, p)
		return &event{true, "LastStepNotSaved", fault.Text{
			EN: fmt.Sprintf("Step %d, the last that all ranks held, was not persisted: %s. The newest that was is step %d.", step, why.EN, durable),
			ZH: fmt.Sprintf("所有进程最后共同持有的第 %d 步未能持久化：%s。最新的持久化步为第 %d 步。", step, why.ZH, durable),
		}, once}
	}
	return nil
}

// lastFault is what a launcher said of it.
func (v *saving) lastFault(members gang.Members, p parting) fault.Text {
	for i := range members {
		for _, tier := range tiers {
			if said := persisted(&members[i], tier, v.generation); said != nil && said.Step >= v.urgent && said.Error != "" {
				return fault.Text{EN: said.Error, ZH: said.Error}
			}
		}
	}
	if p == hopeless {
		return fault.T("a replica had ended before", "有副本此前已退出")
	}
	return fault.T("it was not committed", "未能提交")
}

// releaseOthers lets those go that are no members any more: nobody asks for what they hold. Of a task that is over nobody is.
func (d *decision) releaseOthers(over bool) {
	release := func(name engine.Name, generation int64) {
		d.plan.release = append(d.plan.release, message{name, link.Watermark{Generation: max(generation, 1), Last: true}})
	}
	for _, o := range d.sight.leftover {
		release(o.name, o.generation)
	}
	list := slices.Concat(d.sight.Joining, d.sight.Spares)
	if over {
		list = append(list, d.sight.Members...)
	}
	for i := range list {
		if list[i].Waits() {
			release(list[i].Name, list[i].Said.Generation)
		}
	}
}

// filing is a unit as far as its files count: the one launcher whose folder is kept.
func filing(u *gang.Unit) *gang.Unit {
	out, lead := *u, *u.Members.Lead()
	lead.Ranks = 1
	out.Members, out.World = gang.Members{lead}, 1
	return &out
}

// filed is the newest step in the folder of a launcher that is of the generation; 0: none.
func filed(m *gang.Member, generation int64) int64 {
	if m.Said.Generation != generation {
		return 0
	}
	return m.Said.Keeping.File
}
