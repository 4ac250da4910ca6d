package v1

// Wishes that are understood and checked, but that no planner grants yet: refused by name, so that
// nothing is accepted and ignored. Who builds one deletes its lines here, and nothing else.

// unbuiltRange is for a role whose number of replicas may change.
func (f *faults) unbuiltRange(at string, r *Role, low, high int) {
	if low != r.Replicas {
		f.notBuilt(at+".minReplicas", 4, "elastic tasks", "弹性任务")
	}
	if high != r.Replicas {
		f.notBuilt(at+".maxReplicas", 4, "elastic tasks", "弹性任务")
	}
}
