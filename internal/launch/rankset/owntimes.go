package rankset

import (
	"slices"

	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

const (
	ownSteps = 16 // that are remembered of a rank
	ownKnown = 8  // and that must be known before anything is told
)

// own is what each local rank needed for its own part of its last steps, the newest last: a rank that tells how long it
// waited for others (peer_wait) can be told from those that it keeps waiting.
type own [][]float64

// note is a report of so many steps. One whose time is not known, as after a pause, counts for nothing.
func (o own) note(i int, p *word.Progress, steps int64) {
	waited, told := p.Metrics["peer_wait"]
	if !told || p.T <= 0 || steps <= 0 {
		return
	}
	o[i] = append(o[i], min(max(p.T-max(waited, 0)/float64(steps), 0), 1e9))
	o[i] = o[i][max(0, len(o[i])-ownSteps):]
}

// told is of each rank that is known well enough the mean of its steps without the slowest quarter: pauses that nobody
// announced are there, and a rank that is held up in every other step only is slow all the same.
func (o own) told(first int) (out []link.RankOwn) {
	for i, list := range o {
		if len(list) >= ownKnown {
			usual, sum := slices.Sorted(slices.Values(list))[:len(list)-len(list)/4], 0.
			for _, seconds := range usual {
				sum += seconds
			}
			out = append(out, link.RankOwn{Rank: first + i, Seconds: sum / float64(len(usual)), Steps: len(list)})
		}
	}
	return out
}
