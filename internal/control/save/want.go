package save

import (
	"slices"
	"strings"

	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Steps that ranks wait for (save(wait=True)): due at once in the tier they name. A want stays with its
// launcher until it is answered: committed, or denied here.

// wants are the steps that launchers ask for, the newest of each tier.
func wants(members gang.Members) map[string]int64 {
	out := map[string]int64{}
	for i := range members {
		for _, w := range members[i].Said.Keeping.Wants {
			out[w.Tier] = max(out[w.Tier], w.Step)
		}
	}
	return out
}

// uses says that the task's steps may go to a tier.
func (s *sight) uses(tier string) bool {
	return !tierOf(s.Task, tier).Disabled && s.tiers[tier].there
}

// wanted are the steps to persist now, by tier, and the wants that come to nothing.
func (s *sight) wanted(u *gang.Unit, v *saving) (due map[string]int64, denied []link.Denied) {
	due = map[string]int64{}
	for asked, step := range wants(u.Members) {
		tier := asked
		if tier == "" {
			for i := len(tiers) - 1; i >= 0; i-- { // the nearest
				if s.uses(tiers[i]) {
					tier = tiers[i]
				}
			}
		}
		deny := func(why fault.Text) {
			denied = append(denied, link.Denied{Want: link.Want{Tier: asked, Step: step}, Why: why})
		}
		switch {
		case tier == "" || !s.uses(tier):
			deny(noTier(asked))
		case v.committed[tier].Step >= step: // which is told
		case step <= u.Rendezvous.Restore:
			deny(fault.T("Step %d is not newer than the one that this generation began with.", "第 %d 步不比本代开始时的步更新。", step))
		case v.last[tier].step >= step && v.order == nil && !v.busy[tier]:
			deny(v.lastFault(u.Members, complete))
		default:
			due[tier] = max(due[tier], step)
		}
	}
	slices.SortFunc(denied, func(a, b link.Denied) int { return strings.Compare(a.Tier, b.Tier) })
	return due, denied
}

// denyAll is for tasks of which nothing is kept.
func denyAll(members gang.Members) (denied []link.Denied) {
	for tier, step := range wants(members) {
		denied = append(denied, link.Denied{Want: link.Want{Tier: tier, Step: step}, Why: noTier(tier)})
	}
	return denied
}

func noTier(tier string) fault.Text {
	if tier == "" {
		return fault.T("This task keeps checkpoints in memory only.", "该任务的检查点仅保存在内存中。")
	}
	return fault.T("This task has no checkpoints in the tier %s; see spec.checkpoint and the server's --checkpoints-store.",
		"该任务在层级 %s 没有检查点；请检查 spec.checkpoint 及服务器的 --checkpoints-store。", tier)
}
