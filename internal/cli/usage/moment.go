package usage

import (
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Moment takes a duration back from now, or a time.
func Moment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	return time.Time{}, fault.New(fault.Invalid, "BadTime", fault.T(
		"%q is neither a span such as 10m nor a time such as 2006-01-02T15:04:05Z.",
		"%q 既不是 10m 这样的时长，也不是 2006-01-02T15:04:05Z 这样的时间。", text))
}
