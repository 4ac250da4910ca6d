package probe

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// renewed are the measurements that are worth writing, by the zone that they lead to.
func renewed(windows map[string]*window, written map[string]api.MeasuredLatency, now time.Time) map[string]api.MeasuredLatency {
	news := map[string]api.MeasuredLatency{}
	for to, w := range windows {
		if m, ok := w.measured(now); ok && changed(written[to], m) {
			news[to] = m
		}
	}
	return news
}
