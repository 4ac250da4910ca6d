package main

import (
	"math"
	"testing"
)

func TestSlowdown(t *testing.T) {
	near := func(got, want float64) bool { return math.Abs(got-want) < 1e-9 }
	a, b := []float64{1.02, 2.04, 0.51}, []float64{1, 2, 0.5}
	if low, mid, high := slowdown(ratios(a, b)); !near(low, .02) || !near(mid, .02) || !near(high, .02) {
		t.Errorf("the same slowdown in every pair: %v %v %v", low, mid, high)
	}
	a = []float64{0.9, 1, 1.1, 1.2, 1.3}
	b = []float64{1, 1, 1, 1, 1}
	if low, mid, high := slowdown(ratios(a, b)); !near(mid, .1) || low < -.1-1e-9 || low >= mid || high > .3+1e-9 || high <= mid {
		t.Errorf("another in every pair: %v %v %v", low, mid, high)
	}
}

// TestSideBySide: a machine that is half as fast in the second turns changes nothing, and what one turn in two has cost is not left out.
func TestSideBySide(t *testing.T) {
	turn := func(of ...float64) []float64 { return of }
	for want, a := range map[float64][][]float64{
		1.02: {turn(1.02, 1.02, 9), turn(2.04, 2.04, 9)},
		1.2:  {turn(1, 1, 1), turn(2.88, 2.88, 2.88)},
	} {
		if got := sideBySide(a, [][]float64{turn(1, 1, 1), turn(2, 2, 2)}, middle); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v, not %v", got, want)
		}
	}
}

func TestQuantile(t *testing.T) {
	list := []float64{4, 1, 3, 2}
	for q, want := range map[float64]float64{0: 1, .5: 2.5, 1: 4} {
		if got := quantile(list, q); got != want {
			t.Errorf("%v: %v", q, got)
		}
	}
}
