package bill

import (
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/history"
)

// TestClock: what the machine's clock was set to while a replica ran costs nothing and saves nothing.
func TestClock(t *testing.T) {
	for _, skew := range []time.Duration{0, 24 * time.Hour, -24 * time.Hour, 365 * 24 * time.Hour, -365 * 24 * time.Hour} {
		row := history.UsageRow{Replica: "r", Start: now}
		closeRow(&row, &engine.Exit{At: now.Add(6*time.Second + skew), Ran: 6 * time.Second})
		if d := row.Stop.Sub(row.Start); d != 6*time.Second || !row.Start.Equal(now) {
			t.Errorf("%v: charged for %v", skew, d)
		}
	}
	// One that an older launcher ended, which measured nothing, counts by the clock.
	row := history.UsageRow{Replica: "r", Start: now}
	if closeRow(&row, &engine.Exit{At: now.Add(time.Minute)}); row.Stop.Sub(row.Start) != time.Minute {
		t.Errorf("%+v", row)
	}
}
