package main

// bug is one planted mistake: old becomes bug in file.
type bug struct {
	name, file, old, bug string
}

var bugs = []bug{
	{
		"the device mask is not cleared on release", "sched/cluster.go",
		"			n.used[i] -= share\n", "			n.used[i] -= share * 0\n",
	}, {
		"release counts half of the cores", "sched/cluster.go",
		"	n.room.CPU -= int64(need.CPU) * int64(sign)\n",
		"	if sign < 0 {\n		n.room.CPU += int64(need.CPU) / 2\n	} else {\n		n.room.CPU -= int64(need.CPU)\n	}\n",
	}, {
		"only the leaf's limit is looked at", "sched/fair/tree.go",
		"				return n.Name, i, false\n			}\n		}\n	}\n	return \"\", 0, true",
		"				return n.Name, i, false\n			}\n		}\n		break\n	}\n	return \"\", 0, true",
	}, {
		"a gang starts without its last role", "sched/place.go",
		"		if r.Replicas > 0 {\n", "		if r.Replicas > 0 && (i == 0 || i < len(w.Roles)-1) {\n",
	}, {
		"an equal is evicted by priority", "sched/preempt.go",
		"	switch {\n	case w.Priority > v.Priority:\n		return EvictPriority\n",
		"	switch {\n	case w.Priority >= v.Priority:\n		return EvictPriority\n",
	}, {
		"who may not be preempted is", "sched/preempt.go",
		"return !r.Workload.Preemptible || r.leaving }", "return r.leaving }",
	}, {
		"reservations are ignored", "sched/reserve.go",
		"		if r.ID == e.w.ID || outranks(e.w.Queue, rank, r) {\n", "		if r.ID == e.w.ID || !r.firm || outranks(e.w.Queue, rank, r) {\n",
	}, {
		"the room of claims is given to others", "sched/reserve.go",
		"				hold(need, free)\n", "				_, _ = need, free\n",
	}, {
		"victims depend on the order of a map", "sched/preempt.go",
		"	if len(all) <= exactUpTo {\n		slices.SortFunc(all, byLoss(h.now).compare)\n	}\n	return all\n",
		"	byID := map[string]*victim{}\n	for _, v := range all {\n		byID[v.r.Workload.ID] = v\n	}\n	all = all[:0]\n	for _, v := range byID {\n		all = append(all, v)\n	}\n	return all\n",
	}, {
		"a device is given to 1001 thousandths", "sched/pack/fits.go",
		"				n += int(free / a.Share)\n", "				n += int((free + 1) / a.Share)\n",
	}, {
		"undo forgets the queue's charge", "sched/plan.go",
		"		q.unrun(q.now, r.Workload.ID)\n", "		delete(q.running, r.Workload.ID)\n",
	}, {
		"closed nodes are used", "sched/index.go",
		"		if n.Closed || key.Strict", "		if key.Strict",
	}, {
		"closed devices are used", "sched/cluster.go",
		"		if n.ClosedDevices>>i&1 != 0 {\n", "		if n.ClosedDevices>>i&1 != 0 && n.Closed {\n",
	}, {
		"an elastic gang starts below its min", "sched/resize.go",
		"	if r.Min > 0 && r.Min < r.Replicas {\n		return r.Min\n",
		"	if r.Min > 0 && r.Min < r.Replicas {\n		return max(r.Min-1, 1)\n",
	}, {
		"an elastic gang grows beyond its max", "sched/resize.go",
		"func atMost(r *Role) int { return max(r.Max, r.Replicas) }", "func atMost(r *Role) int { return max(r.Max, r.Replicas) + 1 }",
	}, {
		"shares are rounded to tenths", "sched/cluster.go",
		"	share := need.Part()\n	for mask := s.Devices; mask != 0; mask &= mask - 1 {\n		i := bits",
		"	share := need.Part() / 100 * 100\n	for mask := s.Devices; mask != 0; mask &= mask - 1 {\n		i := bits",
	}, {
		"priority takes what is guaranteed, not only what is borrowed", "sched/fair/tree.go",
		"get(theirs.usage, i)-get(theirs.going, i)-get(gives, i) < g", "get(theirs.usage, i) < 0*g",
	}, {
		"a gang that is told of twice is charged twice", "sched/running.go",
		"	if _, ok := q.running[w.ID]; ok {\n		return\n	}\n	q.unwait(w.ID)\n", "	q.unwait(w.ID)\n",
	}, {
		"the past of the clock is believed", "sched/running.go",
		"	if now.Before(q.now) {\n		return q.now\n	}\n	return now\n", "	if now.Before(q.now) {\n		return q.now.Add(q.now.Sub(now))\n	}\n	return now\n",
	}, {
		"memory is not looked at", "sched/pack/fits.go",
		"		n = min(n, r.Memory/a.Memory)\n", "		n = min(n, int64(MostFits))\n",
	}, {
		"disk is not looked at", "sched/index.go",
		"n.disks(key.Disk)); fits > 0 {", "n.disks(0)); fits > 0 {",
	}, {
		"what was measured between zones is not told to the planner", "internal/control/placement/ground.go",
		"l.Source == cost.Measured || l.Source == cost.Declared", "l.Source == cost.Declared",
	}, {
		"an old measurement counts for ever", "sched/cost/latency.go",
		"(!declared || z.now.Sub(m.At) <= Fresh)", "(!declared || z.now.Sub(m.At) <= 1000*Fresh)",
	}, {
		"a gang is cut over zones that are far apart", "sched/place_zones.go",
		"	return latencyOf(a, b) < distance.Far\n", "	return latencyOf(a, b) <= 10*distance.Far\n",
	}, {
		"one more in a rack than allowed", "sched/place_limit.go",
		"		room = min(room, int64(most-l.s.inRack[r]-l.rack[r]))\n", "		room = min(room, int64(most+1-l.s.inRack[r]-l.rack[r]))\n",
	}, {
		"the first victims that do are taken, not the least", "sched/preempt.go",
		"	chosen := slices.Clone(h.out)\n	if len(all) <= exactUpTo {\n", "	chosen := slices.Clone(h.out)\n	if len(all) < 0 {\n",
	}, {
		"avoided nodes are used", "sched/place.go",
		"		if n, ok := s.c.nodes[number]; ok {\n", "		if n, ok := s.c.nodes[number]; ok && n.Closed {\n",
	}, {
		"what is to come for a claim stays noted", "sched/preempt.go",
		"		q.tree.Coming(e.w.Queue, e.claim.need, -1)\n", "",
	}, {
		"a paused queue starts what was claimed for it", "sched/preempt.go",
		"		if !paused {\n			at, ok := c.At", "		if paused = false; !paused {\n			at, ok := c.At",
	}, {
		"a gang gives way before its quantum is over", "sched/preempt.go",
		"t.now.Sub(r.Since) < t.p.Quantum", "t.now.Sub(r.Since) < 0",
	}, {
		"who may not be preempted is proposed to move", "sched/migrate.go",
		"r.stays() || !s.may(r) ||", "r.leaving || !s.may(r) ||",
	}, {
		"more important gangs are proposed to move", "sched/migrate.go",
		" || r.Workload.Priority > s.w.Priority {", " {",
	}, {
		"the new place of one that moves is not kept", "sched/migrate.go",
		"if !ok || s.c.Reserve(m.r.Workload.ID, to) != nil {", "if !ok {",
	}, {
		"a gang that moved keeps its second place", "sched/elsewhere.go",
		"	c.Unreserve(id)\n	old", "	old",
	}, {
		"real: a gang grows wherever there is room", "sched/resize.go",
		"			one.Allow, one.Avoid = t.c.besides(w, at)\n", "",
	}, {
		"real: the first has no reservation because those behind it have", "sched/reserve.go",
		"func(r *Reservation) bool { return outranks(w.Queue, rank, r) })", "func(r *Reservation) bool { return false })",
	}, {
		"real: two claims of a full queue wait for each other", "sched/preempt.go",
		"			if ok && t.q.tree.RoomNow(w.Queue, w.takes(t.c, at)) {\n",
		"			if _, _, room := t.q.tree.Room(w.Queue, w.takes(t.c, at)); ok && room {\n",
	}, {
		"who may not be preempted is a guest in kept room", "sched/reserve.go",
		"	if !w.Preemptible || t.p.NoPreemption || t.p.NoTurns {", "	if t.p.NoPreemption || t.p.NoTurns {",
	}, {
		"a node that was looked at keeps the stamp of another state", "sched/room/space.go",
		"		s.tried = append(s.tried, tried{at, s.gists[at].stamp})\n	}\n	s.stamp++\n", "		s.tried = append(s.tried, tried{at, s.gists[at].stamp})\n	}\n",
	}, {
		"a node with few untouched devices is refused to all", "sched/room/space.go",
		"int(g.whole) < a.Devices)", "int(g.whole) <= a.Devices)",
	}, {
		"the planner does not know when a gang saved", "internal/control/placement/model.go",
		"sched.Know(m.queues, id, t.Ran.Known.SavedAt, restartOf(t))", "sched.Know(m.queues, id, t.Meta.CreatedAt.Add(-1<<60), restartOf(t))",
	}, {
		"the planner does not know what a start cost", "internal/control/placement/model.go",
		"return cmp.Or(t.Ran.Known.Restart, restartCost)", "return cmp.Or(t.Ran.Known.Restart*0, restartCost)",
	}, {
		"the planner does not know of the faults of nodes", "internal/control/placement/ground.go",
		"Failures: g.faults.Of(n.Meta.Name, g.time()) + n.Status.Failures,", "Failures: 0*g.faults.Of(n.Meta.Name, g.time()) + n.Status.Failures,",
	}, {
		"a save is told only to what waits", "sched/elsewhere.go",
		"	w.LastCheckpoint, w.RestartCost = saved, restart\n", "	w.RestartCost = restart\n",
	}, {
		"a measured start is told only to what waits", "sched/elsewhere.go",
		"	w.LastCheckpoint, w.RestartCost = saved, restart\n", "	w.LastCheckpoint = saved\n",
	}, {
		"a gang is moved for others as soon as it stands", "sched/makeroom.go",
		"t.now.Sub(r.Since) >= settled*t.p.Quantum &&", "t.now.Sub(r.Since) >= 0*settled*t.p.Quantum &&",
	}, {
		"who moves for others has no second place", "sched/makeroom.go",
		"		if t.c.Reserve(mv.ID, mv.To) != nil {", "		if mv.To == nil {",
	},
}
