package v1

import "slices"

// AllProjects among a queue's projects is every project, also those to come.
const AllProjects = "*"

// GrantsVersion is what a project's status says once its grants are written down.
const GrantsVersion = 1

// HomeQueue is the queue of the project's work that names none.
func (p *Project) HomeQueue() string {
	if p.Spec.Queue == "" {
		return DefaultQueue
	}
	return p.Spec.Queue
}

// Admits says whether work of a project may use the queue: its own queue always, others where they
// name it. Queues above and below say nothing about this one.
func (q *Queue) Admits(p *Project) bool {
	return p.HomeQueue() == q.Meta.Name || slices.Contains(q.Spec.Projects, AllProjects) || slices.Contains(q.Spec.Projects, p.Meta.Name)
}

// DefaultPriority is what work of a kind has when it does not say.
func DefaultPriority(kind Kind) int {
	row, _ := InfoOf(kind)
	return PriorityClasses[row.Class]
}

// HighestPriority is the largest that any work can have.
const HighestPriority = maxPriority

// TopPriority is the highest that work of a kind may have in the project: its own class always,
// more as far as an operator allowed.
func (p *Project) TopPriority(kind Kind) int { return max(DefaultPriority(kind), p.Spec.MaxPriority) }

// projects checks a list of projects that may hold AllProjects.
func (f *faults) projects(at string, names []string) {
	if i := slices.Index(names, AllProjects); i >= 0 {
		if len(names) > 1 {
			f.add(item(at, i), "* is every project; name no others beside it.", "* 表示所有项目，请勿再列出其他项目。")
		}
		return
	}
	f.names(at, names)
}
