package rankset

import (
	"slices"
	"strings"

	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// answerWants answers the ranks whose step a tier has by now, or will not have, and tells the leader of the
// others; mu held.
func (s *stand) answerWants(denied []link.Denied) {
	for i, want := range s.wants {
		answer := word.Durable{Step: want.Step, Tier: want.Tier}
		if !slices.ContainsFunc(s.committed, func(c link.Committed) bool {
			return c.Generation == s.now.Number && c.Step >= want.Step && (want.Tier == "" || want.Tier == c.Tier)
		}) {
			k := slices.IndexFunc(denied, func(d link.Denied) bool { return d.Tier == want.Tier && d.Step >= want.Step })
			if k < 0 {
				continue
			}
			answer.Why = denied[k].Why.EN // a program reads it
		}
		delete(s.wants, i)
		s.conns.post(i, func(out *rankOutbox) { out.durable = &answer })
	}
	var list []link.Want
	for _, want := range s.wants { // the newest of each tier: what all ranks wait for is told once
		if k := slices.IndexFunc(list, func(w link.Want) bool { return w.Tier == want.Tier }); k < 0 {
			list = append(list, want)
		} else {
			list[k].Step = max(list[k].Step, want.Step)
		}
	}
	slices.SortFunc(list, func(a, b link.Want) int { return strings.Compare(a.Tier, b.Tier) })
	if !slices.Equal(list, s.said.Keeping.Wants) {
		s.said.Keeping.Wants = list
		s.later(savedPause)
	}
}
