package serving

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// Width is how long a span is of which is counted.
type Width time.Duration

// The widths: a minute of a revision, for curves; an hour of a key, for accounts.
const (
	Minute = Width(time.Minute)
	Hour   = Width(time.Hour)
)

// Served is what one gateway carried for a service in a span of time: of one revision in a minute, or for one key in an hour. What
// names it is whole: a newer row of the same names takes the place of the older one.
type Served struct {
	Gateway   string    `json:"gateway"`
	ServiceID string    `json:"serviceId"`
	Project   string    `json:"project"`
	Service   string    `json:"service"`
	Key       string    `json:"key,omitempty"`
	Revision  int       `json:"revision,omitempty"`
	Width     Width     `json:"width"`
	Start     time.Time `json:"start"`
	ServedCount
	Begun []int64 `json:"begun,omitempty"` // as RevisionLoad's; of minutes
}

// ServedCount is how much was carried.
type ServedCount struct {
	Requests int64 `json:"requests" doc:"That came to an end."`
	Errors   int64 `json:"errors" doc:"Answered 5xx, cut, or not at all."`
	Refused  int64 `json:"refused" doc:"Answered 429."`
	Slow     int64 `json:"slow" doc:"Good answers that began later than spec.slo.latency."`
	Tokens   int64 `json:"tokens"`
}

// Add counts another one as well.
func (c *ServedCount) Add(o ServedCount) {
	c.Requests += o.Requests
	c.Errors += o.Errors
	c.Refused += o.Refused
	c.Slow += o.Slow
	c.Tokens += o.Tokens
}

// Quantile is the time within which a share of the answers had begun, by where their buckets end; 0: there were none.
func Quantile(begun []int64, share float64) time.Duration {
	var all, sum int64
	for _, n := range begun {
		all += n
	}
	if all == 0 {
		return 0
	}
	for i, n := range begun {
		if sum += n; float64(sum) >= share*float64(all) {
			return LoadBound(i)
		}
	}
	return LoadBound(len(begun))
}

// SLO is what a service promises; its error budget is what it may still fail.
type SLO struct {
	Availability float64      `json:"availability" doc:"Percent of requests that must be answered well, such as 99.9. Refused ones (429) don't count."`
	Latency      api.Duration `json:"latency,omitempty" doc:"An answer that begins later is not a good one; any time when absent."`
	Window       api.Duration `json:"window,omitempty" doc:"Over which is counted; 30 days when absent."`
}

const defaultSLOWindow = api.Duration(30 * 24 * time.Hour)

func (s *SLO) fill() {
	if s != nil && s.Window == 0 {
		s.Window = defaultSLOWindow
	}
}

// Slow is from when on an answer is no good one; 0: never.
func (s *SLO) Slow() api.Duration {
	if s == nil {
		return 0
	}
	return s.Latency
}

func (f *faults) slo(at string, s *SLO) {
	if s == nil {
		return
	}
	if !(s.Availability >= 1 && s.Availability < 100) {
		f.add(at+".availability", "It is a percentage below 100, such as 99.9.", "应为小于 100 的百分比，例如 99.9。")
	}
	f.span(at+".latency", s.Latency, 0, maxEvery)
	f.span(at+".window", s.Window, api.Duration(time.Hour), api.Duration(90*24*time.Hour))
}

// LoadReply is what the leader tells a gateway in return.
type LoadReply struct {
	Spent  []KeySpent `json:"spent,omitempty"`
	Logged []LogPiece `json:"logged,omitempty" doc:"Up to where logs are kept for good."`
}

// KeySpent is what all gateways carried for a key this month, where the key has a budget.
type KeySpent struct {
	Key      string `json:"key"`
	Requests int64  `json:"requests"`
	Tokens   int64  `json:"tokens"`
}

// MonthOf is when the month of a budget began.
func MonthOf(now time.Time) time.Time {
	now = now.UTC()
	return time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
}
