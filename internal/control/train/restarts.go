package train

import (
	"cmp"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// allowance is how many restarts a task may have within which window.
type allowance struct {
	most   int
	window time.Duration
}

func allowanceOf(spec *api.TrainingTaskSpec) allowance {
	if r := spec.Restart; r != nil {
		return allowance{r.MaxRestarts, cmp.Or(r.Window.Std(), time.Hour)}
	}
	return allowance{0, time.Hour}
}

// count gives the restarts that still count, and how many more are allowed.
func (a allowance) count(restarts []time.Time, now time.Time) (recent []time.Time, left int) {
	recent = slices.DeleteFunc(slices.Clone(restarts), func(t time.Time) bool { return now.Sub(t) >= a.window })
	return recent, max(a.most-len(recent), 0)
}

// usedUp adds to why a task failed that it fails again and again: it may not be restarted any more. One that never may
// be has nothing to add.
func (a allowance) usedUp(why fault.Text, restarts int) fault.Text {
	if a.most == 0 {
		return why
	}
	limit := fault.T("It was restarted %d [time|times] within %s, and restartPolicy.maxRestarts is %d: it is not tried again.",
		"%[2]s 内已重启 %[1]d 次，restartPolicy.maxRestarts 为 %[3]d：不再重试。", restarts, a.window, a.most)
	return fault.Text{EN: why.EN + " " + limit.EN, ZH: why.ZH + limit.ZH}
}

// A failure is answered at once; only from the third restart within the window on that came no further
// each waits twice as long as the one before.
const (
	backOffWindow = time.Minute
	backOffAfter  = 3
	backOffFirst  = time.Second
	backOffMost   = 30 * time.Second
)

// lately counts the restarts within the window.
func lately(restarts []time.Time, now time.Time) (n int) {
	for _, t := range restarts {
		if now.Sub(t) < backOffWindow {
			n++
		}
	}
	return n
}

// backOff is how long the next restart waits from now.
func backOff(restarts []time.Time, now time.Time) time.Duration {
	n := lately(restarts, now)
	if n < backOffAfter {
		return 0
	}
	pause := min(backOffFirst<<min(n-backOffAfter, 10), backOffMost)
	return max(pause-now.Sub(restarts[len(restarts)-1]), 0)
}
