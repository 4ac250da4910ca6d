package workbench

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestTrainInside: environments that run are the nodes of a training: its ranks see their homes and their network, the first is the master; nobody
// else's may be used unless it is shared; an environment that is stopped meanwhile asks first, and ends after what trains in it.
func TestTrainInside(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"one", "two"} {
		w.must("ann", "env", "create", name, "--cpu", "300m", "--memory", "256Mi")
		w.must("ann", "env", "shell", name, "--", "sh", "-c", "echo home of "+name+" > here")
	}
	w.must("bob", "env", "create", "bobs", "--cpu", "100m", "--memory", "128Mi")

	out := w.must("ann", "train", "run", "--name", "both", "--inside", "one,two", "--", "sh", "-c", `echo "rank $FERMI_RANK of $FERMI_WORLD_SIZE in $(cat here)"; echo $FERMI_RANK > trained`)
	for _, want := range []string{"rank 0 of 2 in home of one", "rank 1 of 2 in home of two"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	if got := w.must("ann", "env", "shell", "two", "--", "cat", "trained"); got != "1\n" {
		t.Errorf("what rank 1 left: %q", got)
	}

	// Whose it is not, nor shared with, does not train there; neither by the form nor by a manifest.
	for _, args := range [][]string{{"train", "run", "--inside", "bobs", "--", "true"}, {"train", "run", "--inside", "nothing", "--", "true"}} {
		if out, code := w.fermi("ann", "", args...); code == 0 || !strings.Contains(out, "bobs") && !strings.Contains(out, "nothing") {
			t.Errorf("%v: %s", args, out)
		}
	}
	task := &api.TrainingTask{Meta: api.Meta{Name: "sneak", Project: "lab"}, Spec: api.TrainingTaskSpec{Inside: []string{"bobs"}, Roles: []api.Role{{Name: "worker", Replicas: 1, Command: []string{"true"}}}}}
	if _, err := client.Create(t.Context(), w.people["ann"], task); err == nil {
		t.Error("a manifest runs in the environment of another")
	}
	share := func(shared bool) {
		t.Helper()
		e, err := client.Get[*devenv.DevEnvironment](t.Context(), w.people["bob"], "lab", "bobs")
		if err != nil {
			t.Fatal(err)
		}
		e.Spec.Shared = shared
		if _, err := client.Update(t.Context(), w.people["bob"], e); err != nil {
			t.Fatal(err)
		}
	}
	share(true)
	w.must("ann", "train", "run", "--detach", "--name", "guest", "--inside", "bobs", "--", "sleep", "1000")
	phase := func(name string) (api.Phase, string) {
		task, err := client.Get[*api.TrainingTask](t.Context(), w.people["ann"], "lab", name)
		if err != nil {
			t.Fatal(err)
		}
		return task.Status.Phase, task.Status.Reason
	}
	harness.Eventually(t, "it runs in what is shared", func() bool { p, _ := phase("guest"); return p == api.PhaseRunning })
	share(false)
	harness.Eventually(t, "what is shared no more ends it", func() bool { p, why := phase("guest"); return p == api.PhaseStopped && why == "EnvironmentClosed" })

	// An environment with a guest is busy, says so, and ends after it.
	w.must("ann", "train", "run", "--detach", "--name", "long", "--inside", "two,one", "--", "sh", "-c", "trap 'echo ended first > last; exit 0' TERM; sleep 1000 & wait")
	harness.Eventually(t, "it runs, and its environments say so", func() bool {
		e, err := client.Get[*devenv.DevEnvironment](t.Context(), w.people["ann"], "lab", "one")
		p, _ := phase("long")
		return err == nil && p == api.PhaseRunning && e.Status.InUseBy == "long"
	})
	if works, err := w.activity("ann", "one"); err != nil || !works.Active {
		t.Errorf("with a guest: %+v, %v", works, err)
	}
	if out, code := w.fermi("ann", "", "env", "stop", "one"); code == 0 || !strings.Contains(out, "long") {
		t.Errorf("stopped without asking: %s", out)
	}
	w.must("ann", "env", "stop", "one", "--yes")
	if p, why := phase("long"); p != api.PhaseStopped || why != "EnvironmentStopped" {
		t.Errorf("its guest: %s, %s", p, why)
	}
	if e, err := client.Get[*devenv.DevEnvironment](t.Context(), w.people["ann"], "lab", "two"); err != nil || e.Status.Phase != api.PhaseRunning || e.Status.InUseBy != "" || e.Status.TrainedAt == nil {
		t.Errorf("the other: %+v, %v", e, err)
	}
	w.must("ann", "env", "start", "one")
	if got := w.must("ann", "env", "shell", "one", "--", "cat", "last"); got != "ended first\n" {
		t.Errorf("its guest's last word: %q", got)
	}
}
