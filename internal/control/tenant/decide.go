package tenant

import (
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// used is what the tasks of one project use.
type used struct {
	queues   []string // sorted, each once
	priority int
}

// usesOf is what each project uses.
func usesOf(tasks []*api.TrainingTask) map[string]*used {
	uses := map[string]*used{}
	for _, t := range tasks {
		u := uses[t.Meta.Project]
		if u == nil {
			u = &used{}
			uses[t.Meta.Project] = u
		}
		if i, found := slices.BinarySearch(u.queues, t.Spec.Queue); !found && t.Spec.Queue != "" {
			u.queues = slices.Insert(u.queues, i, t.Spec.Queue)
		}
		if t.Spec.Priority != nil {
			u.priority = max(u.priority, *t.Spec.Priority)
		}
	}
	return uses
}

// ungranted are the projects of a release that asked nobody.
func ungranted(projects []*api.Project) (names []string) {
	for _, p := range projects {
		if p.Status.Grants == 0 {
			names = append(names, p.Meta.Name)
		}
	}
	return names
}

// grant gives a project what it uses: it changes the project, and returns the queues that it changed. u is nil where no task uses anything.
func grant(p *api.Project, u *used, queues []*api.Queue) (changed []*api.Queue) {
	p.Status.Grants = api.GrantsVersion
	if u == nil {
		return nil
	}
	if u.priority > p.TopPriority(api.KindTrainingTask) {
		p.Spec.MaxPriority = u.priority
	}
	for _, q := range queues {
		if !q.Admits(p) {
			q.Spec.Projects = append(q.Spec.Projects, p.Meta.Name)
			changed = append(changed, q)
		}
	}
	return changed
}

// numbers are those that projects have.
func numbers(projects []*api.Project) (out []int) {
	for _, p := range projects {
		if p.Status.UID != 0 {
			out = append(out, p.Status.UID)
		}
	}
	return out
}

// beyond is the least number from first on that is greater than all of these; those after last are another range's.
func beyond(numbers []int, first, last int) int {
	for _, n := range numbers {
		if n >= first && n <= last {
			first = n + 1
		}
	}
	return first
}
