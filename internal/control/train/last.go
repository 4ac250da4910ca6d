package train

import (
	"context"
	"fmt"
	"slices"
	"strings"

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

// waits says that a launcher's ranks have ended and it waits for what they hold.
func (m *member) waits() bool { return m.said.Keeping.Ended != "" && !m.ended() }

// parting judges who waits, common being the newest step that all hold.
func (s *seen) parting(generation, common int64) parting {
	waiting := func(m member) bool { return m.waits() }
	if !slices.ContainsFunc(s.members, waiting) {
		return nobodyParts
	}
	newest, all, patient := int64(0), true, true
	for i := range s.members {
		m := &s.members[i]
		switch {
		case m.ended() || m.attached && m.said.Generation != generation:
			return hopeless
		case !m.attached: // it comes back, or is found lost
			return awaited
		case !m.waits():
			all = false
		default:
			newest = max(newest, m.said.Keeping.File, slices.Max(append([]int64{0}, m.said.Held...)))
			patient = patient && (m.said.Keeping.Ended == engine.ReasonSucceeded || m.said.Keeping.Ended == engine.ReasonStopped && s.leaves())
		}
	}
	if s.task.Meta.DeletedAt != nil {
		return hopeless
	}
	if all || common >= newest || !patient {
		return complete
	}
	return awaited
}

// unkept says that those who wait do so for nothing: there is no step that all hold, or the task keeps none.
func (s *seen) unkept(generation int64, keeps bool) bool {
	p := s.parting(generation, 0)
	return p == hopeless || p == complete || p == awaited && !keeps
}

// leaves says that all of the task's processes were told to end.
func (s *seen) leaves() bool {
	return s.task.Spec.Stop || s.placement == nil || s.placement.Spec.Evict != nil
}

// letGo decides whether those who wait may go, and tells what became of the last step.
func (c *Controller) letGo(ctx context.Context, s *seen, v *saving, mark *link.Watermark, p parting) {
	if p == nobodyParts || p == awaited || p == complete && (v.order != nil || v.busyAny()) {
		return
	}
	mark.Last = true
	if v.parted {
		return
	}
	v.parted = true
	if e := v.lastEvent(s, mark.Step, p); e != nil {
		if err := c.tell(ctx, s.task, []event{*e}); err != nil {
			c.cfg.Log.Warn("an event was not written", "task", s.task.Meta.ID, "error", err)
		}
	}
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
func (v *saving) lastEvent(s *seen, step int64, p parting) *event {
	var in []string
	durable := s.task.Status.Rendezvous.Restore
	for _, tier := range tiers {
		if done := v.committed[tier].Step; done > 0 {
			durable = max(durable, done)
			if done == v.urgent {
				in = append(in, tier)
			}
		}
	}
	once := "last-" + itoa(s.task.Status.Generation)
	switch {
	case len(in) > 0:
		return &event{false, "LastStepSaved", fault.T("Step %d was persisted (%s) before its processes went.", "第 %d 步已在进程退出前持久化（%s）。", v.urgent, strings.Join(in, ", ")), once}
	case step > durable && (v.urgent > 0 || p == hopeless && s.leaves() && s.task.Meta.DeletedAt == nil):
		why := v.lastFault(s, p)
		return &event{true, "LastStepNotSaved", fault.Text{
			EN: fmt.Sprintf("Step %d, the last that all ranks held, was not persisted: %s. The newest that was is step %d.", step, why.EN, durable),
			ZH: fmt.Sprintf("所有进程最后共同持有的第 %d 步未能持久化：%s。最新的持久化步为第 %d 步。", step, why.ZH, durable),
		}, once}
	}
	return nil
}

// lastFault is what a launcher said of it.
func (v *saving) lastFault(s *seen, p parting) fault.Text {
	for i := range s.members {
		for _, tier := range tiers {
			if said := s.members[i].persisted(tier, v.generation); said != nil && said.Step >= v.urgent && said.Error != "" {
				return fault.Text{EN: said.Error, ZH: said.Error}
			}
		}
	}
	if p == hopeless {
		return fault.T("a replica had ended before", "有副本此前已退出")
	}
	return fault.T("it was not committed", "未能提交")
}

// releaseOthers lets those go that are no members any more: nobody asks for what they hold.
func (c *Controller) releaseOthers(s *seen, members bool) {
	var names []engine.Name
	for _, o := range s.others {
		if o.State != engine.StateDone && o.State != engine.StateExited {
			names = append(names, o.Name)
		}
	}
	list := slices.Concat(s.joining, s.spares)
	if members {
		list = append(list, s.members...)
	}
	for i := range list {
		if list[i].waits() {
			names = append(names, list[i].name)
		}
	}
	for _, name := range names {
		if said, ok := c.cfg.Hub.Ranks(name); ok && said.Keeping.Ended != "" {
			_ = c.cfg.Hub.Watermark(name, link.Watermark{Generation: max(said.Generation, 1), Last: true}) // one that is away asks again
		}
	}
}

// filing is the task as far as its files count: the one launcher whose folder is kept.
func (s *seen) filing() *seen {
	out, lead := *s, *s.lead()
	lead.ranks = 1
	out.members, out.world = []member{lead}, 1
	return &out
}

// filed is the newest step in the folder of a launcher that is of the generation; 0: none.
func (m *member) filed(generation int64) int64 {
	if m.said.Generation != generation {
		return 0
	}
	return m.said.Keeping.File
}
