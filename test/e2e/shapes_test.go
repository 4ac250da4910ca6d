package e2e

import (
	"regexp"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/test/harness"
)

var ofFive = regexp.MustCompile(`rank [0-4] of 5 on`)

// TestShapes: a role for each zone gives each zone so many nodes of its own size, and all ranks are one world.
func TestShapes(t *testing.T) {
	w := up(t, "--demo")
	task := shell("shapes", 2, `echo "rank $RANK of $WORLD_SIZE on $FERMI_NODE"; while [ ! -e "$FERMI_OUTPUT/end" ]; do sleep 0.02; done`)
	task.Spec.Zones = &api.ZoneRules{Split: where.Split{"shanghai-1": where.Exactly(3), "beijing-1": where.Exactly(2)}}
	first := task.Spec.Roles[0]
	first.Name, first.Resources.Accelerators.Count = "worker-1", 8
	second := first
	second.Name, second.Replicas, second.Resources.Accelerators.Count = "worker-2", 3, 4
	task.Spec.Roles = []api.Role{first, second}
	w.submit(task)
	w.phase("shapes", api.PhaseRunning)
	p, err := harness.PlaceOf(t.Context(), w.api, "shapes")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := w.api.Replicas(t.Context(), "default", "shapes")
	if err != nil {
		t.Fatal(err)
	}
	zones := map[string]int{}
	for _, r := range rows {
		zones[r.Role+" in "+r.Zone]++
	}
	if len(zones) != 2 || zones["worker-1 in beijing-1"] != 2 || zones["worker-2 in shanghai-1"] != 3 || len(p.Spec.Roles) != 2 {
		t.Errorf("%v", zones)
	}
	harness.Eventually(t, "all ranks are one world", func() bool {
		return len(ofFive.FindAllString(w.must("logs", "shapes"), -1)) == 5
	})
}
