package audit

import (
	"fmt"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/history"
)

// TestManySourcesShareAnEntry: a thousand addresses make no thousand entries.
func TestManySourcesShareAnEntry(t *testing.T) {
	clk := &stepClock{now: time.Unix(1000, 0)}
	tl := newTally(clk, time.Minute, 10)
	written := 0
	for i := range 1000 {
		if tl.count(fmt.Sprint("10.0.0.", i), "", 1, history.AuditEntry{RemoteIP: fmt.Sprint(i), Outcome: "BadToken"}, "x") {
			written++
		}
	}
	if rows := tl.due(false); written != 10 || len(rows) != 0 {
		t.Fatalf("%d written, %d due before their time", written, len(rows))
	}
	clk.now = clk.now.Add(time.Minute)
	rows := tl.due(false)
	if len(rows) != 1 || rows[0].Count != 990 || rows[0].RemoteIP != "" || rows[0].Outcome != "TooManyToList" {
		t.Fatalf("%+v", rows)
	}
	if !tl.count("10.0.0.1", "", 1, history.AuditEntry{}, "") {
		t.Error("the next span does not begin anew")
	}
}

type stepClock struct{ now time.Time }

func (c *stepClock) Now() time.Time { return c.now }

func (c *stepClock) After(time.Duration) <-chan time.Time { return nil }
