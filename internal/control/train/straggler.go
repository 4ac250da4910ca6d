package train

import (
	"cmp"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// In a gang all ranks take the same time for a step, since they wait for each other in it. What tells the slow one is
// its own part: the step less what it waited for the others. Launchers tell the mean of each rank's over its last
// steps without the slowest quarter, so that a pause, announced or not, is no slowness.
const (
	strayFrom  = 1.5 // times the median of the others' own part
	strayUntil = 1.25
	strayLeast = 0.01             // seconds more than theirs: less is noise
	strayLook  = 15 * time.Second // nobody's turn comes with a slow step, and 50,000 tasks have theirs
	strayEach  = 5 * time.Millisecond
)

// runner is one rank's own part of a step.
type runner struct {
	member *member
	rank   int
	steps  int
	own    float64 // seconds
}

// stragglers names the ranks that the others wait for, and replaces them where the task says so.
func (s *seen) stragglers(p *plan, now time.Time) {
	if p.status.Phase.Finished() || p.archive || p.erase {
		return
	}
	var list []api.Straggler
	if p.status.Phase == api.PhaseRunning {
		field := s.runners(&p.status)
		for _, part := range field {
			list = append(list, s.outliers(p, part, now)...)
		}
		if wake := strayLook + time.Duration(len(s.members))*strayEach; len(field) > 0 && (p.wake == 0 || p.wake > wake) {
			p.wake = wake
		}
	}
	slices.SortStableFunc(list, func(a, b api.Straggler) int { return cmp.Compare(b.Own, a.Own) })
	list = list[:min(len(list), api.MaxStragglers)]
	for i := range list {
		if list[i].Since.Equal(now) {
			p.tell(true, "Straggler", "straggler-"+list[i].Role+"-"+itoa(list[i].Generation)+"-"+itoa(list[i].Rank), strayText(&list[i]))
		}
	}
	if !slices.EqualFunc(list, p.status.Stragglers, sameRunner) {
		p.status.Stragglers, p.commit = list, true
	}
	s.replaceStraggler(p, now)
}

func sameRunner(a, b api.Straggler) bool {
	return a.Rank == b.Rank && a.Role == b.Role && a.Generation == b.Generation
}

// runners are the ranks of each part that tell their own time in its open generation; parts of which fewer than half do
// are left out: nobody knows what is usual there.
func (s *seen) runners(status *api.TrainingTaskStatus) [][]runner {
	parts, ranks := map[string][]runner{}, map[string]int{}
	var order []string
	for i := range s.members {
		m := &s.members[i]
		part := s.alone(m.role)
		generation, _ := openIn(status, part)
		if _, ok := ranks[part]; !ok {
			order = append(order, part)
		}
		ranks[part] += m.ranks
		if m.ended() || m.said.Generation != int64(generation) {
			continue
		}
		for _, r := range m.said.Own {
			if r.Rank >= m.first && r.Rank < m.first+m.ranks {
				parts[part] = append(parts[part], runner{m, r.Rank, r.Steps, r.Seconds})
			}
		}
	}
	var out [][]runner
	for _, part := range order {
		if n := len(parts[part]); n >= 2 && 2*n >= ranks[part] {
			out = append(out, parts[part])
		}
	}
	return out
}

// outliers are those of a part whose own time is far above the median of the others'. One that was named stays so until
// it is clearly no longer.
func (s *seen) outliers(p *plan, part []runner, now time.Time) (out []api.Straggler) {
	slices.SortStableFunc(part, func(a, b runner) int { return cmp.Compare(a.own, b.own) })
	generation, _ := openIn(&p.status, s.alone(part[0].member.role))
	for k, r := range part {
		middle := (len(part) - 1) / 2 // of the others: the larger one of two
		if k <= middle {
			middle++
		}
		others := part[min(middle, len(part)-1)].own
		found := api.Straggler{
			Rank: r.rank, Replica: string(r.member.name), Role: r.member.role, Node: r.member.node, Generation: generation,
			Own: seconds(r.own), Others: seconds(others), Steps: r.steps, Since: now,
		}
		factor := strayFrom
		i := slices.IndexFunc(p.status.Stragglers, func(old api.Straggler) bool { return sameRunner(old, found) })
		if i >= 0 {
			factor, found = strayUntil, p.status.Stragglers[i]
		}
		if r.own > factor*others && r.own-others > strayLeast {
			out = append(out, found)
		}
	}
	return out
}

func seconds(s float64) api.Duration { return api.Duration(s * float64(time.Second)) }

func strayText(f *api.Straggler) fault.Text {
	own, others := f.Own.Std().Round(time.Millisecond), f.Others.Std().Round(time.Millisecond)
	return fault.T("Rank %d on node %s is slow: its own part of a step takes %s, that of the others %s (over %d [step|steps]); they wait for it.",
		"节点 %[2]s 上的 rank %[1]d 过慢：其自身每步耗时 %[3]s，其他 rank 为 %[4]s（统计 %[5]d 步）；其他 rank 在等待它。", f.Rank, f.Node, own, others, f.Steps)
}

// causeStraggler marks a replacement among the faults of the window.
const causeStraggler = "straggler"

// replaceStraggler asks for a place without the node of the slowest, where the task says so: within the budget, once a
// generation. Where there is none the task goes on. A rank that was slow on another node too has more to do than the
// others: no place is a cure.
func (s *seen) replaceStraggler(p *plan, now time.Time) {
	if s.task.Spec.Stragglers != api.StragglersReplace || len(p.status.Stragglers) == 0 || p.swap.node != "" {
		return
	}
	once := itoa(p.status.Generation)
	if s.stay {
		p.tell(true, "StragglerStays", "stays-"+once, fault.T("There is no other place for the task; it goes on with its slow rank.", "没有其他位置可用，任务将带着较慢的 rank 继续运行。"))
		return
	}
	list := slices.Clone(p.status.Stragglers)
	if !list[0].Replacing {
		recent, left := s.budget(p, now)
		mark := api.PastFault{
			At: now, Generation: list[0].Generation, Role: list[0].Role, Node: list[0].Node, Cause: causeStraggler, Fingerprint: "rank " + itoa(list[0].Rank),
		}
		past := s.recentFaults(p, now)
		if left == 0 {
			return
		}
		if slices.ContainsFunc(past, func(f api.PastFault) bool {
			return f.Cause == causeStraggler && f.Role == mark.Role && f.Fingerprint == mark.Fingerprint
		}) {
			p.tell(true, "StragglerStays", "stays-"+once, fault.T("Rank %d was slow on another node too: it is not its node. The task goes on.", "rank %d 在其他节点上同样较慢：并非节点问题。任务继续运行。", list[0].Rank))
			return
		}
		list[0].Replacing = true
		past = append(past, mark)
		p.status.Faults = past[max(0, len(past)-api.MaxPastFaults):]
		p.status.Stragglers, p.status.Restarts, p.commit = list, append(recent, now), true
		p.tell(true, "ReplacingStraggler", "replace-"+once, fault.T("A place without node %s is looked for, as spec.stragglers says.", "按 spec.stragglers 的设置，正在寻找不含节点 %s 的位置。", list[0].Node))
	}
	p.swap = shun{list[0].Node, []string{"node"}}
	if p.wake == 0 || p.wake > swapAgain {
		p.wake = swapAgain
	}
}
