package train

import (
	"slices"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Steps that ranks wait for (save(wait=True)): due at once in the tier they name. A want stays with its
// launcher until it is answered: committed, or denied here.

// wants are the steps that launchers ask for, the newest of each tier.
func (s *seen) wants() map[string]int64 {
	out := map[string]int64{}
	for i := range s.members {
		for _, w := range s.members[i].said.Keeping.Wants {
			out[w.Tier] = max(out[w.Tier], w.Step)
		}
	}
	return out
}

// usable says that a task's steps may go to a tier.
func (c *Controller) usable(s *seen, tier string) bool {
	repo, err := c.cfg.Repo(tier, s.task.Meta.ID)
	return !tierOf(s.task, tier).Disabled && (repo != nil || err != nil) // one that can't be opened now is not one that is not there
}

// wanted are the steps to persist now, by tier, and the wants that come to nothing.
func (c *Controller) wanted(s *seen, v *saving) (due map[string]int64, denied []link.Denied) {
	due = map[string]int64{}
	for asked, step := range s.wants() {
		tier := asked
		if tier == "" {
			for i := len(tiers) - 1; i >= 0; i-- { // the nearest
				if c.usable(s, tiers[i]) {
					tier = tiers[i]
				}
			}
		}
		deny := func(why fault.Text) {
			denied = append(denied, link.Denied{Want: link.Want{Tier: asked, Step: step}, Why: why})
		}
		switch {
		case tier == "" || !c.usable(s, tier):
			deny(noTier(asked))
		case v.committed[tier].Step >= step: // which is told
		case step <= s.task.Status.Rendezvous.Restore:
			deny(fault.T("Step %d is not newer than the one that this generation began with.", "第 %d 步不比本代开始时的步更新。", step))
		case v.last[tier].step >= step && v.order == nil && !v.busy[tier]:
			deny(v.lastFault(s, complete))
		default:
			due[tier] = max(due[tier], step)
		}
	}
	slices.SortFunc(denied, func(a, b link.Denied) int { return strings.Compare(a.Tier, b.Tier) })
	return due, denied
}

// denyAll is for tasks of which nothing is kept.
func (s *seen) denyAll() (denied []link.Denied) {
	for tier, step := range s.wants() {
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
