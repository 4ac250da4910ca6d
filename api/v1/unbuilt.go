package v1

// Wishes that are understood and checked, but that no planner grants yet: refused by name, so that
// nothing is accepted and ignored. Who builds one deletes its lines here, and nothing else.

// unbuilt is for fields of a training task.
func (f *faults) unbuilt(s *TrainingTaskSpec) {
	if z := s.Zones; z != nil {
		if z.SurviveZoneLoss {
			f.notBuilt("spec.zones.surviveZoneLoss", 3, "tasks that survive a zone", "可用区容灾")
		}
		if z.SameRegion == RegionRequire {
			f.notBuilt("spec.zones.sameRegion", 3, "gangs held in one region", "限定同一区域")
		}
	}
	if s.Deadline != nil {
		f.notBuilt("spec.deadline", 3, "deadlines", "截止时间")
	}
	if s.Preemptible {
		f.notBuilt("spec.preemptible", 3, "preemptible tasks", "可抢占任务")
	}
	if s.Deferrable != "" {
		f.notBuilt("spec.deferrable", 3, "tasks that wait for cheap or green hours", "等待低价或低碳时段的任务")
	}
}

// unbuiltRange is for a role whose number of replicas may change.
func (f *faults) unbuiltRange(at string, r *Role, low, high int) {
	if low != r.Replicas {
		f.notBuilt(at+".minReplicas", 4, "elastic tasks", "弹性任务")
	}
	if high != r.Replicas {
		f.notBuilt(at+".maxReplicas", 4, "elastic tasks", "弹性任务")
	}
}

// unbuiltQueue is for queues.
func (f *faults) unbuiltQueue(s *QueueSpec) {
	if s.Parent != "" {
		f.notBuilt("spec.parent", 3, "queue trees", "队列层级")
	}
	if len(s.Guarantee) > 0 {
		f.notBuilt("spec.guarantee", 3, "guaranteed shares", "保障配额")
	}
	if s.Weight != 0 {
		f.notBuilt("spec.weight", 3, "weighted shares", "权重份额")
	}
	if len(s.Limit) > 0 {
		f.notBuilt("spec.limit", 3, "queue limits", "队列上限")
	}
}
