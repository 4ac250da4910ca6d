package rankset

import (
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// addPace adds what a rank reports to the sums of its launcher. A report whose time is not known (the first,
// and the first after a pause) counts for nothing, so that pauses make no rate lower. Flops that are not
// given are 6 for each parameter and token: a forward and a backward pass.
func addPace(sum *link.Pace, p *word.Progress, steps int64) {
	of := func(name string) float64 { return min(max(p.Metrics[name], 0), 1e24) }
	if scale := of("loss_scale"); scale > 0 { // all ranks have the same, one step apart at most
		sum.Scale, sum.Skipped = scale, max(sum.Skipped, int64(min(of("skipped_steps"), 1e15)))
	}
	if p.T <= 0 || steps <= 0 {
		return
	}
	sum.Steps += steps
	sum.Seconds += min(p.T, 1e9) * float64(steps)
	sum.Samples += of("samples")
	sum.Tokens += of("tokens")
	sum.Waited += of("data_wait")
	if flops := of("flops"); flops > 0 {
		sum.Flops += flops
	} else {
		sum.Flops += min(6*of("parameters")*of("tokens"), 1e24)
	}
}
