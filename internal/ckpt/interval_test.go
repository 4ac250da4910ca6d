package ckpt

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestIntervalIsYoungsWhereFailuresAreRare(t *testing.T) {
	c := Cost{Stall: 200 * time.Millisecond, MTBF: 5 * time.Hour, Recovery: 40 * time.Second, Step: time.Millisecond}
	got, err := Interval(c, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	young := math.Sqrt(2 * c.Stall.Seconds() * c.MTBF.Seconds()) // 84.9 s
	if ratio := got.Every.Seconds() / young; ratio < 0.99 || ratio > 1.01 || got.Limit != "" {
		t.Fatalf("%+v, Young says %.1f s", got, young)
	}
	if !strings.HasPrefix(got.Why.EN, "Every 1m24.7s (84720 steps)") || !strings.Contains(got.Why.ZH, "约每 5h0m0s 发生一次故障") {
		t.Fatal(got.Why)
	}
}

func TestIntervalRefusesTimesThatCanNotBe(t *testing.T) {
	good := Cost{Stall: time.Second, MTBF: time.Hour, Step: time.Second}
	for _, bad := range []func(*Cost){
		func(c *Cost) { c.Stall = -1 }, func(c *Cost) { c.MTBF = 0 }, func(c *Cost) { c.Step = 0 },
		func(c *Cost) { c.Recovery = -1 }, func(c *Cost) { c.Drain = -1 },
	} {
		c := good
		bad(&c)
		if _, err := Interval(c, 0, 0); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := Interval(good, 2, 1); !fault.Is(err, fault.Invalid) {
		t.Error("bounds that cross:", err)
	}
}

func drawCost(t *rapid.T) Cost {
	draw := func(name string, low, high time.Duration) time.Duration {
		return time.Duration(math.Exp(rapid.Float64Range(math.Log(float64(low)), math.Log(float64(high))).Draw(t, name)))
	}
	return Cost{
		Stall: draw("stall", time.Microsecond, time.Hour), MTBF: draw("mtbf", time.Second, 10000*time.Hour),
		Recovery: draw("recovery", time.Millisecond, time.Hour), Drain: draw("drain", time.Millisecond, time.Hour),
		Step: draw("step", time.Microsecond, 10*time.Minute),
	}
}

// No other interval loses less; the bounds hold; what grows makes it grow.
func TestIntervalIsTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCost(t)
		got, err := Interval(c, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got.Steps == 0 || got.Lost < 0 || got.Lost > 1 || got.Why.EN == "" || got.Why.ZH == "" {
			t.Fatalf("%+v", got)
		}
		for _, factor := range []float64{0.1, 0.5, 2, 10} {
			other := float64(got.Every) * factor
			if other < float64(c.Step) {
				continue
			}
			// Rounding to whole steps may move it by half of one.
			if lost := c.lost(other); lost < got.Lost-1e-9 && math.Abs(other-float64(got.Every)) > float64(c.Step) {
				t.Fatalf("%+v loses %v, %v × as long %v", got, got.Lost, factor, lost)
			}
		}
		worse := c
		worse.Stall *= 2
		if more, err := Interval(worse, 0, 0); err != nil || more.Every < got.Every {
			t.Fatalf("a longer stall gives %v after %v: %v", more.Every, got.Every, err)
		}
		rarer := c
		rarer.MTBF *= 2
		if more, err := Interval(rarer, 0, 0); err != nil || more.Every < got.Every {
			t.Fatalf("rarer failures give %v after %v: %v", more.Every, got.Every, err)
		}
	})
}

func TestIntervalKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCost(t)
		least := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "least"))
		most := least + time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "more"))
		got, err := Interval(c, least, most)
		if err != nil {
			t.Fatal(err)
		}
		if got.Every < least-c.Step/2-1 || got.Every > max(most, c.Step)+c.Step/2+1 || got.Every < c.Step {
			t.Fatalf("%+v outside of %v to %v at steps of %v", got, least, most, c.Step)
		}
	})
}

// A task that fails at random loses what the formula says.
func TestLostIsWhatFailuresCost(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []Cost{
		{Stall: time.Second, MTBF: 1000 * time.Second, Recovery: 30 * time.Second, Step: time.Second},
		{Stall: 20 * time.Second, MTBF: 200 * time.Second, Recovery: 60 * time.Second, Step: time.Second},
	} {
		got, err := Interval(c, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		every, stall, mtbf, recovery := got.Every.Seconds(), c.Stall.Seconds(), c.MTBF.Seconds(), c.Recovery.Seconds()
		var wall, kept float64
		for range 200_000 { // segments: each until it is saved, however often it fails
			for {
				fails := rng.ExpFloat64() * mtbf
				if fails >= every+stall {
					break
				}
				wall += fails
				for down := rng.ExpFloat64() * mtbf; down < recovery; down = rng.ExpFloat64() * mtbf {
					wall += down // failed while it recovered
				}
				wall += recovery
			}
			wall += every + stall
			kept += every
		}
		if seen := 1 - kept/wall; math.Abs(seen-got.Lost) > 0.02 {
			t.Errorf("%+v: lost %.4f, the formula says %.4f", c, seen, got.Lost)
		}
	}
}

func TestMTBF(t *testing.T) {
	for _, c := range []struct {
		failures         uint64
		ran, prior, want time.Duration
	}{
		{0, 0, 24 * time.Hour, 24 * time.Hour}, {0, 24 * time.Hour, 24 * time.Hour, 48 * time.Hour},
		{3, 24 * time.Hour, 24 * time.Hour, 12 * time.Hour}, {0, -5, 0, time.Second},
	} {
		if got := MTBF(c.failures, c.ran, c.prior); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
