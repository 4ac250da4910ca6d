package rankset

import (
	"maps"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// maxScores is how many reports are remembered: between the save of a step and the order to persist it.
const maxScores = 256

// scores are the metrics of rank 0, so that a checkpoint can say how good its state is: each number counts from
// the step that it was reported of until another is.
type scores struct {
	list  []score
	older score // what those before them came to
}

type score struct {
	step   int64
	values map[string]float64
}

// unscored are the metrics that say how fast or how well it runs, not how good the state is.
var unscored = map[string]bool{
	"samples": true, "tokens": true, "flops": true, "parameters": true, "data_wait": true, "peer_wait": true, "loss_scale": true, "skipped_steps": true, "saves_skipped": true, "save_stall": true,
}

func (s *scores) note(p *word.Progress) {
	values := map[string]float64{}
	for name, v := range p.Metrics {
		if name != "" && len(name) <= api.MaxMetricName && !unscored[name] {
			values[name] = v
		}
	}
	if len(values) == 0 {
		return
	}
	if s.list = append(s.list, score{p.Step, values}); len(s.list) > maxScores {
		s.older.add(s.list[0])
		s.list = slices.Delete(s.list, 0, 1)
	}
}

// add lets a later report count. One that was not finite (NAME.nonfinite) takes the number that was there.
func (s *score) add(later score) {
	s.step = max(s.step, later.step)
	if s.values == nil {
		s.values = map[string]float64{}
	}
	for _, name := range slices.Sorted(maps.Keys(later.values)) {
		if finite, not := strings.CutSuffix(name, ".nonfinite"); not {
			delete(s.values, finite)
		} else if _, known := s.values[name]; known || len(s.values) < link.MaxMetrics {
			s.values[name] = later.values[name]
		}
	}
}

// at is what was known at a step; nil: nothing, or it is too long ago.
func (s *scores) at(step int64) map[string]float64 {
	if s.older.step > step {
		return nil
	}
	out := score{values: maps.Clone(s.older.values)}
	for _, one := range s.list {
		if one.step <= step {
			out.add(one)
		}
	}
	if len(out.values) == 0 {
		return nil
	}
	return out.values
}

// rewind forgets what was reported beyond a step.
func (s *scores) rewind(step int64) {
	s.list = slices.DeleteFunc(s.list, func(one score) bool { return one.step > step })
	if s.older.step > step {
		s.older = score{}
	}
}
