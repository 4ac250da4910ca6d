package rankset

import (
	"slices"
	"strings"

	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// answerWants answers the ranks whose step a tier has by now, or will not have, and tells the leader of the
// others; mu held.
func (r *Set) answerWants(denied []link.Denied) {
	for i, want := range r.wants {
		answer := word.Durable{Step: want.Step, Tier: want.Tier}
		if !slices.ContainsFunc(r.committed, func(c link.Committed) bool {
			return c.Generation == r.now.Number && c.Step >= want.Step && (want.Tier == "" || want.Tier == c.Tier)
		}) {
			k := slices.IndexFunc(denied, func(d link.Denied) bool { return d.Tier == want.Tier && d.Step >= want.Step })
			if k < 0 {
				continue
			}
			answer.Why = denied[k].Why.EN // a program reads it
		}
		delete(r.wants, i)
		r.Conns.post(i, func(out *rankOutbox) { out.durable = &answer })
	}
	var list []link.Want
	for _, want := range r.wants { // the newest of each tier: what all ranks wait for is told once
		if k := slices.IndexFunc(list, func(w link.Want) bool { return w.Tier == want.Tier }); k < 0 {
			list = append(list, want)
		} else {
			list[k].Step = max(list[k].Step, want.Step)
		}
	}
	slices.SortFunc(list, func(a, b link.Want) int { return strings.Compare(a.Tier, b.Tier) })
	if !slices.Equal(list, r.said.Keeping.Wants) {
		r.said.Keeping.Wants = list
		r.later(savedPause)
	}
}
