package demand

import (
	"fmt"
	"math"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Seen is what the number of replicas is decided from.
type Seen struct {
	Wanted int // so far
	Ready  int
	// Changed is when Wanted changed last, zero: never; Grew says that it grew then.
	Changed time.Time
	Grew    bool
	Stable  Load // of the whole window
	Panic   Load // of its last tenth
}

// Decision is how many replicas there should be, and why.
type Decision struct {
	Wanted  int
	Reason  string
	Message fault.Text
}

// panicAt is how many times as many replicas the short window must ask for.
const panicAt = 2

// Wanted decides how many replicas a service should have. It changes nothing.
func Wanted(a *serving.ServiceAutoscale, s Seen, now time.Time) Decision {
	low, high, scheduled := bounds(a, now)
	keep := func(reason string, message fault.Text) Decision { return Decision{s.Wanted, reason, message} }
	switch {
	case s.Wanted < low:
		return Decision{low, why(scheduled, "Minimum"), fault.T("At least %d replicas are wanted.", "至少需要 %d 个副本。", low)}
	case s.Wanted > high:
		return Decision{high, why(scheduled, "Maximum"), fault.T("At most %d replicas are allowed.", "最多允许 %d 个副本。", high)}
	case !s.Stable.Known:
		return keep("NoFigures", fault.T("No gateway has reported for a while; the number stays.", "网关暂无上报，副本数保持不变。"))
	case s.Wanted == 0 && s.Panic.Now == 0:
		return keep("Idle", fault.T("Nobody asks.", "没有请求。"))
	}
	need, metric := most(a, &s, &s.Stable)
	short, by := most(a, &s, &s.Panic)
	base := max(s.Ready, 1)
	panics := short >= panicAt*base && short > s.Wanted
	if panics && short > need {
		need, metric = short, by
	}
	if s.Wanted == 0 {
		return Decision{min(max(need, 1), high), "FromZero", fault.T("A request waits and no replica is there.", "有请求在等待，当前没有副本。")}
	}
	idle := s.Stable.Requests == 0 && s.Stable.Concurrency == 0 && s.Panic.Now == 0
	if idle {
		need = 0
	} else {
		need = max(need, 1)
	}
	need = min(max(need, low), high)
	switch {
	case need > s.Wanted:
		if wait := a.Policy.Up.Std() - now.Sub(s.Changed); !panics && !s.Changed.IsZero() && wait > 0 {
			return keep("CoolDown", fault.T("%s; the next step up is in %s.", "%s；%s 后才会扩容。", metric, wait.Round(time.Second)))
		}
		reason := "Load"
		if panics {
			reason = "Panic"
		}
		return Decision{need, reason, fault.T("%s.", "%s。", metric)}
	case need < s.Wanted:
		if wait := a.Policy.Down.Std() - now.Sub(s.Changed); wait > 0 {
			return keep("CoolDown", fault.T("%s; the next step down is in %s.", "%s；%s 后才会缩容。", metric, wait.Round(time.Second)))
		}
		if need == 0 {
			return Decision{0, "Idle", fault.T("Nobody asked for %s.", "%s 内没有请求。", a.Policy.Window)}
		}
		return Decision{need, "Load", fault.T("%s.", "%s。", metric)}
	}
	return keep("Enough", fault.T("%s.", "%s。", metric))
}

func why(scheduled bool, otherwise string) string {
	if scheduled {
		return "Schedule"
	}
	return otherwise
}

// headroom is how far below the next step what is needed must lie before fewer replicas are enough: without it a load at
// the edge of two numbers would change between them.
const headroom = 0.15

// most is the largest number of replicas that any metric asks for, and what that metric says.
func most(a *serving.ServiceAutoscale, s *Seen, l *Load) (int, string) {
	best, said := 0, "nobody asks"
	for _, m := range a.Metrics {
		var need, value float64
		unit := ""
		switch m.Type {
		case serving.MetricConcurrency:
			value, unit = l.atOnce(a.Policy.Window.Std()), "at once"
			need = value / m.Target
		case serving.MetricQueue:
			value, unit = l.Queue, "waiting"
			need = value / m.Target
		case serving.MetricQPS:
			value, unit = l.QPS, "requests/s"
			need = value / m.Target
		case serving.MetricTokens:
			value, unit = l.Tokens, "tokens/s"
			need = value / m.Target
		case serving.MetricLatency:
			value, unit = l.Latency, "s p95"
			need = float64(max(s.Ready, 1)) * value / m.Target
			if l.Requests == 0 {
				need = 0
			}
		case serving.MetricCPU:
			value, unit = 100*l.Cores, "% of the cores"
			need = asNow(s, value/m.Target, l.HasCores)
		case serving.MetricDevice:
			value, unit = 100*l.Devices, "% of the accelerators' time"
			need = asNow(s, value/m.Target, l.HasDevices)
		}
		n := int(math.Ceil(need - 1e-9))
		if n < s.Wanted && int(math.Ceil(need*(1+headroom)-1e-9)) >= s.Wanted {
			n = s.Wanted // close to what there is: it stays
		}
		if n > best || best == 0 {
			best, said = max(n, best), fmt.Sprintf("%s %.4g %s, %.4g a replica", m.Type, value, unit, m.Target)
		}
	}
	return best, said
}

// atOnce is how many requests want to be worked on at a time. A queue does not count as it stands: it is as long as what was too little
// for it took, and a replica for each part of it would come when it is gone. So it is what is worked on, more by what the queue grew by for each
// request that was done, and as much as works it off within a time. Where nothing was done yet all count.
func (l *Load) atOnce(within time.Duration) float64 {
	worked := l.Concurrency - l.Queue
	if l.Requests == 0 || l.QPS == 0 || worked <= 0 {
		return l.Concurrency
	}
	takes := worked / l.QPS // each, in seconds
	return min(l.Concurrency, worked*(1+float64(max(l.Grew, 0))/float64(l.Requests))+float64(l.Waiting)*takes/within.Seconds())
}

// asNow is how many replicas bring what each has to do to its target; as many as there are where that is not known.
func asNow(s *Seen, load float64, known bool) float64 {
	if !known {
		return float64(s.Wanted)
	}
	return float64(max(s.Ready, 1)) * load
}

// bounds are those that hold now, and whether a schedule says so.
func bounds(a *serving.ServiceAutoscale, now time.Time) (low, high int, scheduled bool) {
	for _, w := range a.Schedule {
		if holds(w, now) {
			return w.MinReplicas, w.MaxReplicas, true
		}
	}
	return a.MinReplicas, a.MaxReplicas, false
}

// holds says that a window of the day is now.
func holds(w serving.ScaleWindow, now time.Time) bool {
	zone, err := time.LoadLocation(w.TimeZone)
	if err != nil {
		return false
	}
	now = now.In(zone)
	minute := now.Hour()*60 + now.Minute()
	from, to := minuteOf(w.From), minuteOf(w.To)
	day := int(now.Weekday()+6)%7 + 1 // 1 is Monday
	on := func(day int) bool {
		if len(w.Days) == 0 {
			return true
		}
		for _, d := range w.Days {
			if d == day {
				return true
			}
		}
		return false
	}
	if from <= to {
		return minute >= from && minute < to && on(day)
	}
	return minute >= from && on(day) || minute < to && on((day+5)%7+1) // over midnight: the day before's
}

func minuteOf(text string) int {
	t, err := time.Parse("15:04", text)
	if err != nil {
		return 0
	}
	return t.Hour()*60 + t.Minute()
}
