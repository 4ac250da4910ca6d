package v1

// MaxPeerReplicas bounds tasks whose states are copied to peers: who is which rank is part of their status.
const MaxPeerReplicas = 1024

// PeerMemory says that what ranks save is also in another node's memory.
func (s *TrainingTaskSpec) PeerMemory() bool { return s.Checkpoint != nil && s.Checkpoint.Peer }

// peerMemory refuses copies where the number of ranks, or who is which, is not fixed.
func (f *faults) peerMemory(s *TrainingTaskSpec) {
	if !s.PeerMemory() {
		return
	}
	const at = "spec.checkpoint.peer"
	if s.Spares() > 0 {
		f.add(at, "A task with spares can't have it: a spare is handed the state by the ranks that are left.", "带备用副本的任务不能启用：备用副本由其余 rank 直接交接状态。")
	}
	replicas := 0
	for i := range s.Roles {
		r := &s.Roles[i]
		replicas += r.Replicas
		if r.Alone() {
			f.add(at, "The role %s starts again by itself; copies in a peer's memory go with roles that start again together.", "角色 %s 单独重启；对端内存副本仅适用于一同重启的角色。", quote(r.Name))
		}
	}
	switch {
	case s.Elastic():
		f.add(at, "An elastic task shares its state among ranks already; leave this out, or minReplicas and maxReplicas.", "弹性任务的状态已在各进程间共享；请去掉此项，或去掉 minReplicas 和 maxReplicas。")
	case len(s.Inside) > 0:
		f.add(at, "It is not for tasks inside environments.", "不适用于在环境内运行的任务。")
	case replicas < 2:
		f.add(at, "There is no peer: the task has %d replica.", "没有对端：任务只有 %d 个副本。", replicas)
	case replicas > MaxPeerReplicas:
		f.add(at, "At most %d replicas can, not %d.", "最多支持 %d 个副本，而不是 %d。", MaxPeerReplicas, replicas)
	}
}
