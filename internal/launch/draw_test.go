package launch

import (
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link/curve"
)

// TestReportsThatCameTogether: each has the time that its rank says, and one whose time can't be is of now.
func TestReportsThatCameTogether(t *testing.T) {
	r := &reports{curve.NewSource(clock.Real, slog.New(slog.DiscardHandler)), map[int]stamp{}}
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		generation, step int64
		t                float64
		now, want        time.Duration
	}{
		{1, 1, 0, 0, 0},
		{1, 2, 0.1, 500 * time.Millisecond, 100 * time.Millisecond},
		{1, 4, 0.1, 500 * time.Millisecond, 300 * time.Millisecond},
		{1, 5, 9, 500 * time.Millisecond, 500 * time.Millisecond},       // it would be later than now
		{1, 6, 0.1, 10 * time.Second, 10 * time.Second},                 // it would have waited too long
		{2, 3, 0.1, 10100 * time.Millisecond, 10100 * time.Millisecond}, // another generation
		{2, 3, 0.1, 10200 * time.Millisecond, 10200 * time.Millisecond}, // the same step again
	} {
		if got := r.when(c.generation, 0, now.Add(c.now), &word.Progress{Step: c.step, T: c.t}); !got.Equal(now.Add(c.want)) {
			t.Errorf("step %d of %d: %v", c.step, c.generation, got.Sub(now))
		}
	}
}

func TestNotFinite(t *testing.T) {
	if !math.IsNaN(notFinite(1)) || !math.IsInf(notFinite(2), 1) || !math.IsInf(notFinite(3), -1) || !math.IsNaN(notFinite(7)) {
		t.Error("not as the SDK says")
	}
}
