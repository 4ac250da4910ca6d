package rankset

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

func TestScores(t *testing.T) {
	var s scores
	report := func(step int64, metrics map[string]float64) { s.note(&word.Progress{Step: step, Metrics: metrics}) }
	at := func(step int64, want map[string]float64) {
		t.Helper()
		if d := cmp.Diff(want, s.at(step)); d != "" {
			t.Errorf("step %d: %s", step, d)
		}
	}
	at(1, nil)
	report(1, map[string]float64{"tokens": 9})
	at(1, nil)
	report(1, map[string]float64{"loss": 3, "val": 5, "peer_wait": 1})
	report(2, map[string]float64{"loss": 2})
	report(4, map[string]float64{"loss.nonfinite": 1})
	report(5, map[string]float64{"loss": 1})
	at(1, map[string]float64{"loss": 3, "val": 5})
	at(3, map[string]float64{"loss": 2, "val": 5})
	at(4, map[string]float64{"val": 5})
	at(9, map[string]float64{"loss": 1, "val": 5})
	s.rewind(3)
	at(9, map[string]float64{"loss": 2, "val": 5})
}

// TestScoresAreBounded: of many the newest count exactly, older ones by what they came to, and no step gets a number
// that was reported of a later one.
func TestScoresAreBounded(t *testing.T) {
	var s scores
	for step := range int64(3 * maxScores) {
		s.note(&word.Progress{Step: step + 1, Metrics: map[string]float64{"loss": float64(step + 1), "m" + strconv.FormatInt(step, 10): 1}})
	}
	if len(s.list) != maxScores || len(s.older.values) != link.MaxMetrics {
		t.Fatal(len(s.list), len(s.older.values))
	}
	if got := s.at(maxScores); got != nil {
		t.Errorf("%v", got)
	}
	for _, step := range []int64{2 * maxScores, 3*maxScores - 7, 3 * maxScores} {
		if got := s.at(step); got["loss"] != float64(step) || len(got) > link.MaxMetrics {
			t.Errorf("step %d: %v", step, got)
		}
	}
	s.rewind(5)
	if got := s.at(9); got != nil {
		t.Errorf("%v", got)
	}
}
