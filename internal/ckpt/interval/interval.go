package interval

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Cost is what was measured of a task and a tier: what Tune weighs.
type Cost struct {
	// Stall is how long training waits for one save; not the writing behind its back.
	Stall time.Duration
	// Drain is from the save until this tier could give it back: a failure loses that much more.
	Drain time.Duration
	// MTBF is the mean time that the task runs between failures after which this tier is needed.
	MTBF time.Duration
	// Recovery is from such a failure to the next step.
	Recovery time.Duration
	// Step is the usual time of one.
	Step time.Duration
	// Seen is how many such failures there were in the time Over; said with the MTBF, which follows from them.
	Seen uint64
	Over time.Duration
	// Was is the interval so far, in steps; 0: none. It stays while it is about as good: changes are told to every rank.
	Was uint64
}

// Tuned is how often to save, and why.
type Tuned struct {
	Every time.Duration
	Steps uint64
	// Lost is the share of the time that saves, failures and what they undo take, at this interval.
	Lost float64
	// Limit says what kept the interval from the best one: nothing (""), "step" (a step is longer),
	// "least" or "most" (the bounds).
	Limit string
	Why   fault.Text
}

// MTBF estimates the mean time between failures from what was seen. Before any was, one in prior is assumed beside it: a
// task that has run an hour without any is not one that never fails. Each that was seen leaves a quarter of
// that: one may be chance, three are a rate.
func MTBF(failures uint64, ran, prior time.Duration) time.Duration {
	weight := math.Pow(4, -float64(failures))
	return time.Duration((float64(max(ran, 0)) + weight*float64(max(prior, time.Second))) / (float64(failures) + weight))
}

// Tune is the one that loses least time, between least and most (0: no bound), in whole steps.
//
// The story is Young's: a save costs its stall, so save seldom; a failure undoes half an interval, so
// save often; √(2·stall·MTBF) balances the two. That is only good while both are small beside the MTBF, so
// this solves Daly's renewal equation instead, which holds for any: with failures at random, the share
// of time that is kept is τ / (M·e^(R/M)·(e^((τ+d)/M) − 1)), largest where 1 − e^(−(τ+d)/M) = τ/M.
func Tune(c Cost, least, most time.Duration) (Tuned, error) {
	if c.Stall < 0 || c.Drain < 0 || c.Recovery < 0 || c.Step <= 0 || c.MTBF <= 0 || least < 0 || most < 0 || most > 0 && most < least {
		return Tuned{}, fault.New(fault.Invalid, "BadCost", fault.T(
			"An interval can't be found from these times: the stall %s, the step %s, the time between failures %s, the bounds %s and %s.",
			"无法据此计算保存间隔：停顿 %s、步长 %s、故障间隔 %s、上下限 %s 与 %s。", c.Stall, c.Step, c.MTBF, least, most))
	}
	t := Tuned{Every: time.Duration(best(float64(c.Stall), float64(c.MTBF)))}
	// The loss is flat around the best: a fifth beside it costs two hundredths of the loss more.
	if was := float64(c.Was) * float64(c.Step); math.Abs(was-float64(t.Every)) <= float64(t.Every)/5 {
		t.Every = time.Duration(was)
	}
	if t.Every < least {
		t.Every, t.Limit = least, "least"
	}
	if most > 0 && t.Every > most {
		t.Every, t.Limit = most, "most"
	}
	if t.Every < c.Step {
		t.Every, t.Limit = c.Step, "step"
	}
	t.Steps = max(uint64(math.Round(float64(t.Every)/float64(c.Step))), 1)
	if d := time.Duration(t.Steps) * c.Step; d/c.Step == time.Duration(t.Steps) {
		t.Every = d
	}
	t.Lost = c.lost(float64(t.Every))
	t.Why = t.why(c, most)
	return t, nil
}

// best solves 1 − e^(−(τ+d)/M) = τ/M: left minus right falls from above 0 at τ = 0 to below it at M.
func best(stall, mtbf float64) float64 {
	low, high := 0.0, mtbf
	for range 100 {
		at := (low + high) / 2
		if -mtbf*math.Expm1(-(at+stall)/mtbf) > at {
			low = at
		} else {
			high = at
		}
	}
	return high
}

// lost is the share of the time that is not training, by Daly's renewal.
func (c Cost) lost(every float64) float64 {
	m := float64(c.MTBF)
	back := (float64(c.Recovery) + float64(c.Drain)) / m
	kept := every / m / (math.Exp(back) * math.Expm1((every+float64(c.Stall))/m))
	return min(max(1-kept, 0), 1)
}

func (t Tuned) why(c Cost, most time.Duration) fault.Text {
	en := fmt.Sprintf("Every %s (%s): ", steps(t.Steps), span(t.Every).EN)
	zh := fmt.Sprintf("每 %d 步（%s）保存一次：", t.Steps, span(t.Every).ZH)
	if c.Drain > 0 {
		en += fmt.Sprintf("writing one takes %s and costs training %s", span(c.Drain).EN, span(c.Stall).EN)
		zh += fmt.Sprintf("写入一次需 %s，使训练损失 %s", span(c.Drain).ZH, span(c.Stall).ZH)
	} else {
		en += fmt.Sprintf("a save stalls training for %s", span(c.Stall).EN)
		zh += fmt.Sprintf("每次保存使训练停顿 %s", span(c.Stall).ZH)
	}
	en += fmt.Sprintf(", a failure that needs it comes about every %s (%d seen in %s)", span(c.MTBF).EN, c.Seen, span(c.Over).EN)
	zh += fmt.Sprintf("，约每 %s发生一次需要它的故障（%s内 %d 次）", span(c.MTBF).ZH, span(c.Over).ZH, c.Seen)
	if c.Recovery > 0 {
		en += fmt.Sprintf(", coming back takes %s", span(c.Recovery).EN)
		zh += fmt.Sprintf("，恢复需 %s", span(c.Recovery).ZH)
	}
	end := map[string]fault.Text{
		"":      {EN: ", about the least there is.", ZH: "，接近最小值。"},
		"step":  {EN: "; every step is as often as it goes.", ZH: "；每步一次已是最高频率。"},
		"least": {EN: "; more often is not possible.", ZH: "；无法更频繁。"},
		"most":  {EN: "; more than " + span(most).EN + " is never put at stake.", ZH: "；间隔不超过 " + span(most).ZH + "。"},
	}[t.Limit]
	return fault.Text{EN: fmt.Sprintf("%s. That costs %.2g %% of the time%s", en, 100*t.Lost, end.EN), ZH: fmt.Sprintf("%s。由此损失 %.2g%% 的时间%s", zh, 100*t.Lost, end.ZH)}
}

func steps(n uint64) string {
	if n == 1 {
		return "step"
	}
	return fmt.Sprintf("%d steps", n)
}

// span is a duration as people say it, in the largest unit that it has one of.
func span(d time.Duration) fault.Text {
	for _, unit := range []struct {
		of     time.Duration
		en, zh string
	}{{24 * time.Hour, "d", "天"}, {time.Hour, "h", "小时"}, {time.Minute, "min", "分钟"}, {time.Second, "s", "秒"}, {time.Millisecond, "ms", "毫秒"}} {
		if d >= unit.of {
			n := strconv.FormatFloat(math.Round(10*float64(d)/float64(unit.of))/10, 'f', -1, 64)
			return fault.Text{EN: n + " " + unit.en, ZH: n + " " + unit.zh}
		}
	}
	us := strconv.FormatInt(d.Microseconds(), 10)
	return fault.Text{EN: us + " µs", ZH: us + " 微秒"}
}
