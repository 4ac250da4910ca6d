package train

import (
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"

	"github.com/fermi-cluster/fermi/internal/control/train/blame"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// causeStraggler marks a replacement among the faults of the window.
const causeStraggler = "straggler"

// replaceStraggler asks for a place without the node of the slowest, where the task says so: within the budget, once a
// generation. Where there is none the task goes on. A rank that was slow on another node too has more to do than the
// others: no place is a cure.
func replaceStraggler(s *snapshot, p *plan, now time.Time) {
	if p.status.Phase.Finished() || p.archive || p.erase {
		return
	}
	if s.Task.Spec.Stragglers != api.StragglersReplace || len(p.status.Stragglers) == 0 || p.swap.node != "" {
		return
	}
	once := itoa(p.status.Generation)
	if s.stay {
		p.tell(true, "StragglerStays", "stays-"+once, fault.T("There is no other place for the task; it goes on with its slow rank.", "没有其他位置可用，任务将带着较慢的 rank 继续运行。"))
		return
	}
	list := slices.Clone(p.status.Stragglers)
	if !list[0].Replacing {
		recent, left := allowanceOf(&s.Task.Spec).count(p.status.Restarts, now)
		mark := api.PastFault{
			At: now, Generation: list[0].Generation, Role: list[0].Role, Node: list[0].Node, Cause: causeStraggler, Fingerprint: "rank " + itoa(list[0].Rank),
		}
		past := blame.Recent(p.status.Faults, allowanceOf(&s.Task.Spec).window, now)
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
		p.status.Faults = past.With(mark)
		p.status.Stragglers, p.status.Restarts, p.commit = list, append(recent, now), true
		p.tell(true, "ReplacingStraggler", "replace-"+once, fault.T("A place without node %s is looked for, as spec.stragglers says.", "按 spec.stragglers 的设置，正在寻找不含节点 %s 的位置。", list[0].Node))
	}
	p.swap = shun{list[0].Node, []string{"node"}}
	p.wakeIn(swapAgain)
}
