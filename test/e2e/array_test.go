package e2e

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/array"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestArray: one command makes a task for each index, so many at once; the array says which failed, survives the server's death, and ends as one.
// An ordinary member does it.
func TestArray(t *testing.T) {
	kinds.ShipArrays() // for the client, which has the same table
	w := up(t)
	w.must("user", "create", "ann", "--role", "member")
	w.must("project", "create", "lab")
	w.must("project", "add-member", "lab", "ann")
	secret := strings.TrimSpace(w.must("token", "create", "ann-1", "--user", "ann"))
	as := func(args ...string) result { return w.fermiIn(t.TempDir(), []string{"FERMI_TOKEN=" + secret}, args...) }
	if r := as("train", "run", "--no-code", "--array", "9-1%x", "--", "true"); r.code == 0 || !strings.Contains(r.err, "--array") {
		t.Errorf("%+v", r)
	}
	r := as("train", "run", "--no-code", "--project", "lab", "--name", "sweep", "--array", "1-5%2", "--", "sh", "-c", `echo "index $FERMI_ARRAY_INDEX of $FERMI_ARRAY_COUNT"; test "$FERMI_ARRAY_INDEX" -ne 4`)
	if r.code != 0 || strings.TrimSpace(r.out) != "sweep" {
		t.Fatalf("%+v", r)
	}
	if r := as("array", "wait", "sweep", "--project", "lab"); r.code == 0 || !strings.Contains(r.err, "1 of 5 indexes failed: 4") {
		t.Errorf("%+v", r)
	}
	contains(t, as("logs", "sweep-3", "--project", "lab").out, "index 3 of 5")
	contains(t, as("array", "show", "sweep", "--project", "lab").out, "1-3,5")
	contains(t, as("get", "arrays", "--project", "lab").out, "sweep", "Failed")
	if r := as("train", "rerun", "sweep-3", "--project", "lab"); r.code != 0 || !strings.Contains(r.out, "index 3 of 5") {
		t.Errorf("one index again: %+v", r)
	}

	if r := as("train", "run", "--no-code", "--project", "lab", "--name", "long", "--cpu", "100m", "--memory", "64Mi", "--array", "0-30:10%2", "--", "sh", "-c", `while [ ! -e "$FERMI_OUTPUT/end" ]; do sleep 0.02; done`); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	get := func() *array.TaskArray {
		a, err := client.Get[*array.TaskArray](t.Context(), w.api, "lab", "long")
		if err != nil {
			return &array.TaskArray{}
		}
		return a
	}
	harness.Eventually(t, "two run", func() bool { return get().Status.Count.Running == 2 })
	w.Kill()
	w.start()
	if r := as("array", "limit", "long", "3", "--project", "lab"); r.code != 0 {
		t.Errorf("%+v", r)
	}
	harness.Eventually(t, "three run", func() bool { return get().Status.Count == array.ArrayCount{Total: 4, Held: 1, Running: 3} })
	if r := as("array", "stop", "long", "--project", "lab"); r.code != 0 {
		t.Errorf("%+v", r)
	}
	harness.Eventually(t, "all have ended", func() bool { return get().Status.Phase == api.PhaseStopped })
	if got := get().Status.Ended.Stopped; got != "0-30:10" {
		t.Errorf("stopped are %s", got)
	}
	if r := as("array", "delete", "long", "--project", "lab"); r.code != 0 {
		t.Errorf("%+v", r)
	}
	harness.Eventually(t, "it is gone", func() bool { return get().Meta.Name == "" })
}
