package cluster

import (
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestBar: the bar of a terminal is never empty when something is used, never longer than full.
func TestBar(t *testing.T) {
	for part, want := range map[float64]string{0: "░░░░░░░░░░", .001: "█░░░░░░░░░", .5: "█████░░░░░", 1: "██████████", 7: "██████████"} {
		if got := bar(part); got != want {
			t.Errorf("%v: %s", part, got)
		}
	}
	if got := usedCell(api.QueueShare{Limit: map[string]float64{"devices": 6}, Used: map[string]float64{"devices": 3}}, true); got.Text != "█████░░░░░ 3/6 devices" {
		t.Error(got)
	}
}
