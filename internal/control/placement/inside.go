package placement

import (
	"maps"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/sched"
)

// guests are tasks that run inside others, their environments. The planner never hears of them: what
// they use is their environments', and counted there. Each environment has one guest at a time, and who
// asked first has it first. The model's owner locks it.
type guests struct {
	waiting map[string]*guest          // by task id: Pending and wanted
	wanted  map[string]map[string]bool // environment → ids of those who wait
	lent    map[string]tenancy         // environment → who has it
	stands  map[string]*api.Placement  // by task id: as written
	dirty   map[string]bool            // ids of those to look at
}

// guest is one that waits.
type guest struct {
	task *api.Workload
	why  sched.Explanation
	away bool // an environment of it does not run: nobody waits behind it
}

type tenancy struct{ id, name string }

func newGuests() *guests {
	return &guests{
		waiting: map[string]*guest{}, wanted: map[string]map[string]bool{}, lent: map[string]tenancy{},
		stands: map[string]*api.Placement{}, dirty: map[string]bool{},
	}
}

func under(project, name string) string { return project + "/" + name }

// touch says that something about an environment changed.
func (g *guests) touch(environment string) {
	for id := range g.wanted[environment] {
		g.dirty[id] = true
	}
}

func (g *guests) touchAll(t *api.Workload) {
	for _, name := range t.Wish.Inside {
		g.touch(under(t.Meta.Project, name))
	}
}

// set files a guest, or takes it out when it waits no more.
func (g *guests) set(t *api.Workload) {
	id := t.Meta.ID
	if !t.Waits() {
		g.drop(id)
		return
	}
	w := g.waiting[id]
	if w == nil {
		w = &guest{}
		g.waiting[id] = w
	}
	w.task, g.dirty[id] = t, true
	for _, name := range t.Wish.Inside {
		at := under(t.Meta.Project, name)
		if g.wanted[at] == nil {
			g.wanted[at] = map[string]bool{}
		}
		g.wanted[at][id] = true
	}
}

func (g *guests) drop(id string) {
	w := g.waiting[id]
	if w == nil {
		return
	}
	delete(g.waiting, id)
	delete(g.dirty, id)
	for _, name := range w.task.Wish.Inside {
		at := under(w.task.Meta.Project, name)
		if delete(g.wanted[at], id); len(g.wanted[at]) == 0 {
			delete(g.wanted, at)
		}
	}
	if g.stands[id] == nil {
		g.giveBack(w.task)
	}
	g.touchAll(w.task)
}

// giveBack is for a guest that has no place after all.
func (g *guests) giveBack(t *api.Workload) {
	for _, name := range t.Wish.Inside {
		if at := under(t.Meta.Project, name); g.lent[at].id == t.Meta.ID {
			delete(g.lent, at)
			g.touch(at)
		}
	}
}

// stand notes a guest's place.
func (g *guests) stand(p *api.Placement) {
	id := p.Spec.TaskID
	g.stands[id] = p
	for _, l := range p.Spec.Inside {
		g.lent[under(p.Meta.Project, l.Task)] = tenancy{id, p.OwnerName()}
	}
}

// leave notes that a placement is gone; false: it was no guest's.
func (g *guests) leave(gone *api.Placement) bool {
	id := gone.Spec.TaskID
	p := g.stands[id]
	if p == nil {
		return false
	}
	delete(g.stands, id)
	for _, l := range p.Spec.Inside {
		at := under(p.Meta.Project, l.Task)
		if g.lent[at].id == id {
			delete(g.lent, at)
		}
		g.touch(at)
	}
	return true
}

// next is the oldest guest to look at; nil: none.
func (g *guests) next() *api.Workload {
	var first *api.Workload
	for id := range g.dirty {
		if w := g.waiting[id]; w == nil || g.stands[id] != nil {
			delete(g.dirty, id)
		} else if first == nil || older(w.task, first) {
			first = w.task
		}
	}
	if first != nil {
		delete(g.dirty, first.Meta.ID)
	}
	return first
}

func older(a, b *api.Workload) bool {
	if !a.Meta.CreatedAt.Equal(b.Meta.CreatedAt) {
		return a.Meta.CreatedAt.Before(b.Meta.CreatedAt)
	}
	return a.Meta.ID < b.Meta.ID
}

// judge says why a guest waits, given why not all of its environments run; nil: all is its own now.
func (g *guests) judge(t *api.Workload, away *sched.Explanation) *sched.Explanation {
	w := g.waiting[t.Meta.ID]
	if (away != nil) != w.away {
		w.away = away != nil
		g.touchAll(t)
	}
	why := away
	if why == nil {
		why = g.behind(t)
	}
	if why != nil {
		w.why = *why
		return why
	}
	for _, name := range t.Wish.Inside {
		g.lent[under(t.Meta.Project, name)] = tenancy{t.Meta.ID, t.Meta.Name}
	}
	return nil
}

// behind says who has an environment, or was there first.
func (g *guests) behind(t *api.Workload) *sched.Explanation {
	for _, name := range t.Wish.Inside {
		at := under(t.Meta.Project, name)
		if by, ok := g.lent[at]; ok && by.id != t.Meta.ID {
			return &sched.Explanation{
				Reason: "EnvironmentInUse", Message: fault.T("It waits for task %s, which trains in environment %s.", "正在等待任务 %s，它正在环境 %s 中训练。", by.name, name),
				Action: fault.T("Wait for its end, or choose another environment.", "请等待其结束，或选择其他环境。"),
			}
		}
		for _, id := range slices.Sorted(maps.Keys(g.wanted[at])) {
			if other := g.waiting[id]; id != t.Meta.ID && !other.away && g.stands[id] == nil && older(other.task, t) {
				return &sched.Explanation{
					Reason: "EnvironmentInUse", Message: fault.T("It waits for task %s, which asked for environment %s first.", "正在等待任务 %s，它先申请了环境 %s。", other.task.Meta.Name, name),
				}
			}
		}
	}
	return nil
}

// hosts are what a guest runs inside of, as it stands.
type hosts struct {
	lenders []api.Lender
	slots   api.Slots
	away    string // the first that does not run
}

// missing says which one does not run; nil: all do.
func (h hosts) missing() *sched.Explanation {
	if h.away == "" {
		return nil
	}
	return &sched.Explanation{
		Reason: "EnvironmentNotRunning", Message: fault.T("It waits for environment %s, which does not run.", "正在等待环境 %s，该环境未在运行。", h.away),
		Action: fault.T("Start it, or choose another.", "请启动该环境，或选择其他环境。"),
	}
}

// runs says that work lends its place to others now, as far as that goes without the place.
func runs(t *api.Workload) bool { return t.Host.Lends && t.Phase == api.PhaseRunning && !t.Stop }

// lentBy is the place of such work; ok is false where it leaves, or has another.
func lentBy(name string, t *api.Workload, p *api.PlacementSpec) (l api.Lender, slot api.Slot, ok bool) {
	if p.TaskID != t.Meta.ID || p.Evict != nil || len(p.Roles) != 1 || len(p.Roles[0].Slots) != 1 || p.Roles[0].Index(0) != 0 {
		return l, slot, false
	}
	role := p.Roles[0].Role
	return api.Lender{Task: name, TaskID: t.Meta.ID, Role: role, Attempt: t.AttemptOf(role)}, p.Roles[0].Slots[0], true
}

// why is what a guest waits for; false: it does not wait, or nobody looked yet.
func (g *guests) why(taskID string) (sched.Explanation, bool) {
	w := g.waiting[taskID]
	if w == nil || g.stands[taskID] != nil || w.why.Reason == "" {
		return sched.Explanation{}, false
	}
	return w.why, true
}
