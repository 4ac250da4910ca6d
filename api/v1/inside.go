package v1

// maxInside is how many environments a task may run inside.
const maxInside = 1024

// inside checks a task that runs inside others: their places, devices and limits are its own, so it
// asks for none.
func (f *faults) inside(s *TrainingTaskSpec) {
	if len(s.Inside) == 0 {
		return
	}
	const at = "spec.inside"
	f.borrows = true
	if len(s.Inside) > maxInside {
		f.add(at, "%d environments are too many: at most %d.", "环境 %d 个过多：最多 %d 个。", len(s.Inside), maxInside)
		return
	}
	seen := map[string]bool{}
	for i, name := range s.Inside {
		f.name(item(at, i), name)
		if seen[name] {
			f.add(item(at, i), "%s is there twice; choose each environment once.", "%s 重复，每个环境只能选择一次。", quote(name))
		}
		seen[name] = true
	}
	if len(s.Roles) != 1 || s.Roles[0].Replicas != len(s.Inside) {
		f.add(at, "A task inside environments has one role with a replica for each of them.", "在环境内运行的任务只有一个角色，且每个环境对应一个副本。")
	}
	for i := range s.Roles {
		r, path := &s.Roles[i], item("spec.roles", i)
		if r.Resources != (Resources{}) {
			f.add(path+".resources", "Inside an environment a task has the environment's resources; leave them out.", "在环境内运行的任务使用环境的资源，请删除该字段。")
		}
		if r.MinReplicas != nil || r.MaxReplicas != nil {
			f.add(path+".minReplicas", "A task inside environments has as many replicas as there are; leave minReplicas and maxReplicas out.", "在环境内运行的任务副本数与环境数一致，请删除 minReplicas 与 maxReplicas。")
		}
	}
	for _, no := range []struct {
		field string
		set   bool
	}{{"zones", s.Zones != nil}, {"topology", s.Topology != nil}, {"deferrable", s.Deferrable != ""}, {"preemptible", s.Preemptible}} {
		if no.set {
			f.add("spec."+no.field, "A task inside environments stands where they do; leave it out.", "在环境内运行的任务位于环境所在之处，请删除该字段。")
		}
	}
}
