package object

import (
	"testing"

	"github.com/fermi-cluster/fermi/client"
)

// TestReplicaRows: a spare is shown as one, whatever its processes do.
func TestReplicaRows(t *testing.T) {
	if rows := replicaRows([]client.Replica{{Role: "worker", Index: 2, State: "Running", Spare: "warm"}}); rows[0][1].Text != "Spare" {
		t.Error(rows)
	}
}
