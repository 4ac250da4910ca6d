package interval

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
	c := Cost{Stall: 200 * time.Millisecond, MTBF: 5 * time.Hour, Recovery: 40 * time.Second, Step: time.Millisecond, Seen: 2, Over: 6 * time.Hour}
	got, err := Tune(c, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	young := math.Sqrt(2 * c.Stall.Seconds() * c.MTBF.Seconds()) // 84.9 s
	if ratio := got.Every.Seconds() / young; ratio < 0.99 || ratio > 1.01 || got.Limit != "" {
		t.Fatalf("%+v, Young says %.1f s", got, young)
	}
	want := fault.Text{
		EN: "Every 84720 steps (1.4 min): a save stalls training for 200 ms, a failure that needs it comes about every 5 h (2 seen in 6 h), coming back takes 40 s. That costs 0.69 % of the time, about the least there is.",
		ZH: "每 84720 步（1.4 分钟）保存一次：每次保存使训练停顿 200 毫秒，约每 5 小时发生一次需要它的故障（6 小时内 2 次），恢复需 40 秒。由此损失 0.69% 的时间，接近最小值。",
	}
	if got.Why != want {
		t.Fatal(got.Why)
	}
}

func TestIntervalSaysWhatBoundsIt(t *testing.T) {
	c := Cost{Stall: time.Second, Drain: 16 * time.Second, MTBF: 720 * time.Hour, Step: time.Minute, Over: 90 * time.Second}
	for want, bounds := range map[string][2]time.Duration{
		"Every 30 steps (30 min): writing one takes 16 s and costs training 1 s, a failure that needs it comes about every 30 d (0 seen in 1.5 min). That costs 0.091 % of the time; more than 30 min is never put at stake.": {0, 30 * time.Minute},
		"Every 120 steps (2 h): writing one takes 16 s and costs training 1 s, a failure that needs it comes about every 30 d (0 seen in 1.5 min). That costs 0.15 % of the time; more often is not possible.":                {2 * time.Hour, 0},
	} {
		if got, err := Tune(c, bounds[0], bounds[1]); err != nil || got.Why.EN != want {
			t.Errorf("%v: %s", err, got.Why.EN)
		}
	}
	c = Cost{Stall: time.Microsecond, MTBF: time.Minute, Step: time.Hour}
	if got, err := Tune(c, 0, 0); err != nil || !strings.HasPrefix(got.Why.EN, "Every step (1 h): a save stalls training for 1 µs") {
		t.Error(got.Why.EN, err)
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
		if _, err := Tune(c, 0, 0); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := Tune(good, 2, 1); !fault.Is(err, fault.Invalid) {
		t.Error("bounds that cross:", err)
	}
}

func TestIntervalStaysWhileItIsAboutAsGood(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCost(t)
		free, err := Tune(c, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		c.Was = max(uint64(float64(free.Steps)*rapid.Float64Range(0.1, 3).Draw(t, "off")), 1)
		got, err := Tune(c, 0, 0)
		if err != nil || got.Steps != c.Was && got.Steps != free.Steps {
			t.Fatalf("%+v: %v", got, err)
		}
		if got.Lost-free.Lost > 0.03*free.Lost+1e-9 {
			t.Fatalf("%d steps lose %v, %d %v", got.Steps, got.Lost, free.Steps, free.Lost)
		}
	})
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
		got, err := Tune(c, 0, 0)
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
		if more, err := Tune(worse, 0, 0); err != nil || more.Every < got.Every {
			t.Fatalf("a longer stall gives %v after %v: %v", more.Every, got.Every, err)
		}
		rarer := c
		rarer.MTBF *= 2
		if more, err := Tune(rarer, 0, 0); err != nil || more.Every < got.Every {
			t.Fatalf("rarer failures give %v after %v: %v", more.Every, got.Every, err)
		}
	})
}

func TestIntervalKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCost(t)
		least := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "least"))
		most := least + time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "more"))
		got, err := Tune(c, least, most)
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
		got, err := Tune(c, 0, 0)
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
		{1, 24 * time.Hour, 96 * time.Hour, 38*time.Hour + 24*time.Minute}, {0, -5, 0, time.Second},
	} {
		if got := MTBF(c.failures, c.ran, c.prior); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	last := MTBF(0, 6*time.Hour, 720*time.Hour)
	for n := uint64(1); n < 50; n++ { // each that was seen makes it shorter; many make it what was seen
		now := MTBF(n, 6*time.Hour, 720*time.Hour)
		if now >= last || n > 4 && now > 7*time.Hour/time.Duration(n) {
			t.Errorf("%d failures in 6 h: one in %v after %v", n, now, last)
		}
		last = now
	}
}
