package gang

import (
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Unit is the members that start again together: those of all roles that restart with the task, or of one role that restarts by
// itself. It holds what the status says of them: their attempt, their generation and where that began.
type Unit struct {
	Terms
	Role       string // the one that restarts by itself; "": all that restart with the task
	Attempt    int
	Generation int
	Rendezvous *api.Rendezvous // of the generation; nil: none is open
	Members    Members
	World      int   // their ranks
	at         []int // where they are among the task's; nil: they are all of them
}

// Main says that it is of the roles that restart with the task: the only ones whose states outlive memory.
func (u *Unit) Main() bool { return u.Role == "" }

// Whole says that the task has no other unit.
func (u *Unit) Whole() bool { return u.at == nil }

// At is where its i-th member is among the task's.
func (u *Unit) At(i int) int {
	if u.at == nil {
		return i
	}
	return u.at[i]
}

// Once sets the happenings of one unit apart from those of another.
func (u *Unit) Once(name string) string {
	if u.Role == "" {
		return name
	}
	return u.Role + "-" + name
}

// Write puts what it holds where the status has it.
func (u *Unit) Write(status *api.TrainingTaskStatus) {
	if r := status.Role(u.Role); r != nil {
		r.Attempt, r.Generation, r.Rendezvous = u.Attempt, u.Generation, u.Rendezvous
		return
	}
	status.Attempt, status.Generation, status.Rendezvous = u.Attempt, u.Generation, u.Rendezvous
}

// Restorable is the step to go on from: the newest that all ranks hold, or that is held for them. Of an elastic task it is the
// newest that all hold who hold any; the others are newcomers, and are handed it.
func (u *Unit) Restorable() int64 {
	if u.Task.Spec.CheckpointFolder() != "" {
		return 0 // its state is in files
	}
	if u.Elastic() {
		return newestCommon(u.Members.held())
	}
	step := u.Members.HeldByAll()
	if u.Peered() {
		step = max(step, u.Members.Covered(u.World))
	}
	return step
}

// Progressed says that all ranks got beyond where the open generation began: what fails then is no
// start that fails again and again.
func (u *Unit) Progressed() bool {
	from := u.Rendezvous.Restore
	if u.Task.Spec.CheckpointFolder() != "" {
		from = 0 // the number of an entry, which need be no step; launchers tell none before the first
	}
	return !u.Members.Any(func(m *Member) bool {
		return m.Said.Generation != int64(u.Generation) || m.Said.Step <= from && (len(m.Said.Held) == 0 || slices.Max(m.Said.Held) <= from)
	})
}

// Units are the task's as a status has them, the one of the roles that restart with it first.
func (g *Gang) Units(status *api.TrainingTaskStatus) []Unit {
	main := Unit{Terms: g.Terms, Attempt: status.Attempt, Generation: status.Generation, Rendezvous: status.Rendezvous, Members: g.Members, World: g.World}
	if len(status.Roles) == 0 {
		return []Unit{main}
	}
	main.Members, main.World, main.at = nil, 0, []int{}
	list := []Unit{main}
	for _, r := range status.Roles {
		list = append(list, Unit{Terms: g.Terms, Role: r.Name, Attempt: r.Attempt, Generation: r.Generation, Rendezvous: r.Rendezvous, at: []int{}})
	}
	for i := range g.Members {
		u := &list[1+slices.IndexFunc(status.Roles, func(r api.RoleStatus) bool { return r.Name == g.Members[i].Role })]
		u.Members, u.at = append(u.Members, g.Members[i]), append(u.at, i)
		u.World += g.Members[i].Ranks
	}
	return list
}

// Main is the unit of the roles that restart with the task, as the task's own status has it.
func (g *Gang) Main() Unit { return g.Units(&g.Task.Status)[0] }
