package serve

import (
	"math"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
)

// TestBudget: what is refused does not count, what is slow does, and a promise that is broken shows below nothing.
func TestBudget(t *testing.T) {
	slo := &serving.SLO{Availability: 99.9}
	if b := budget(slo, serving.ServedCount{}, serving.ServedCount{}); b.Measured != nil || b.Left != 100 || b.Burn != 0 {
		t.Errorf("nothing asked: %+v", b)
	}
	b := budget(slo, serving.ServedCount{Requests: 11_000, Refused: 1000, Errors: 3, Slow: 2}, serving.ServedCount{Requests: 1000, Errors: 2})
	if math.Abs(*b.Measured-99.95) > 1e-9 || math.Abs(b.Left-50) > 1e-6 || math.Abs(b.Burn-2) > 1e-6 || b.Requests != 10_000 || b.Bad != 5 {
		t.Errorf("half is used: %+v, measured %v", b, *b.Measured)
	}
	if b := budget(slo, serving.ServedCount{Requests: 1000, Errors: 10}, serving.ServedCount{}); b.Left > -899 {
		t.Errorf("ten times what is allowed: %+v", b)
	}
}

// TestStep: a span has at most so many points.
func TestStep(t *testing.T) {
	for span, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, 4 * time.Hour: time.Minute, 4*time.Hour + time.Second: 2 * time.Minute, 24 * time.Hour: 6 * time.Minute} {
		if got := step(span); got != want || span/got > mostPoints {
			t.Errorf("%s: %s, want %s", span, got, want)
		}
	}
}
