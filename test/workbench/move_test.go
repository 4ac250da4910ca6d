package workbench

import (
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestMove: a home goes to another zone with everything in it, also where the server is killed on the way; one that finds no place there, or is given
// up, is where it was; of the old homes nothing is left.
func TestMove(t *testing.T) {
	w := newWorld(t, "--demo")
	get := func() *devenv.DevEnvironment {
		t.Helper()
		e, err := client.Get[*devenv.DevEnvironment](t.Context(), w.people["ann"], "lab", "lab")
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	alone := func(name string) { // no other home is left
		t.Helper()
		harness.Eventually(t, "one home is left", func() bool {
			homes, err := filepath.Glob(filepath.Join(w.Dir, "engine", "homes", "*"))
			return err == nil && len(homes) == 1 && filepath.Base(homes[0]) == name
		})
	}
	const look = "sha256sum -c sum && stat -c %a tool && readlink link && ls -A"
	w.must("ann", "env", "create", "lab", "--cpu", "500m", "--memory", "256Mi", "--zone", "beijing-1")
	was := w.must("ann", "env", "shell", "lab", "--", "sh", "-c", "head -c 50000000 /dev/urandom > data; sha256sum data > sum; echo x > tool; chmod 750 tool; ln -s data link; mkdir empty; "+look)

	out := w.must("ann", "env", "move", "lab", "--zone", "shanghai-1")
	if !strings.Contains(out, "moved from beijing-1 to shanghai-1") {
		t.Error(out)
	}
	e := get()
	if e.Status.Phase != api.PhaseRunning || len(e.Status.Zones) != 1 || e.Status.Zones[0] != "shanghai-1" || e.Spec.Zone != "shanghai-1" || e.HomeName() != e.Meta.ID+"-m1" {
		t.Errorf("%+v %+v", e.Spec, e.Status)
	}
	if now := w.must("ann", "env", "shell", "lab", "--", "sh", "-c", look); now != was {
		t.Errorf("what is in it: %s instead of %s", now, was)
	}
	alone(e.HomeName())

	// The server is killed while the home is saved, and while the new one is filled.
	w.must("ann", "env", "shell", "lab", "--", "sh", "-c", "head -c 150000000 /dev/urandom > data; sha256sum data > sum")
	w.must("ann", "env", "move", "lab", "--zone", "beijing-2", "--no-wait")
	harness.Eventually(t, "its home is being saved", func() bool {
		e := get()
		return e.Saves() && e.Status.Phase == api.PhaseRunning || (devenv.Moves{Of: e}).Filling()
	})
	w.Kill()
	harness.Ready(t, w.Cluster)
	harness.Eventually(t, "it is on its way", func() bool { e := get(); return (devenv.Moves{Of: e}).Filling() || e.Status.HomeCount == 2 })
	w.Kill()
	harness.Ready(t, w.Cluster)
	harness.Eventually(t, "it is moved", func() bool { e := get(); return !(devenv.Moves{Of: e}).Going() && e.Status.HomeCount == 2 })
	if now := w.must("ann", "env", "shell", "lab", "--", "sh", "-c", look); now != was {
		t.Errorf("what is in it after two kills: %s instead of %s", now, was)
	}
	alone(get().HomeName())

	// Where nothing can start it waits and says so; a stop gives it up, and the home is where it was.
	nodes, err := w.admin.List(t.Context(), api.KindNode, client.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	full := ""
	for _, o := range nodes.Items {
		if n := o.(*api.Node); n.Spec.Zone == "shanghai-1" {
			full = n.Meta.Name
		}
	}
	if _, err := w.admin.NodeVerb(t.Context(), "cordon", full, -1); err != nil {
		t.Fatal(err)
	}
	w.must("ann", "env", "move", "lab", "--node", full, "--no-wait")
	harness.Eventually(t, "it waits for its node", func() bool {
		e := get()
		return (devenv.Moves{Of: e}).Filling() && strings.Contains(e.Status.Message.EN, full)
	})
	if out, code := w.fermi("ann", "", "env", "move", "lab", "--zone", "shanghai-1"); code == 0 || !strings.Contains(out, "already") {
		t.Errorf("two at once: exit code %d\n%s", code, out)
	}
	w.must("ann", "env", "stop", "lab")
	if e := get(); e.Status.HomeCount != 2 || e.Status.Zones[0] != "beijing-2" || !strings.Contains(e.Status.Message.EN, "where it was") {
		t.Errorf("%+v", e.Status)
	}
	w.must("ann", "env", "start", "lab")
	if now := w.must("ann", "env", "shell", "lab", "--", "sh", "-c", look); now != was {
		t.Errorf("after one that was given up: %s instead of %s", now, was)
	}
	alone(get().HomeName())

	for want, args := range map[string][]string{
		"there already": {"--zone", "beijing-2"}, "no node": {"--node", "nowhere"}, "no zone": {"--zone", "nowhere"}, "Say where": {}, "is in zone": {"--node", full, "--zone", "beijing-1"},
	} {
		if out, code := w.fermi("ann", "", append([]string{"env", "move", "lab"}, args...)...); code == 0 || !strings.Contains(out, want) {
			t.Errorf("%v: exit code %d\n%s", args, code, out)
		}
	}
	if out, code := w.fermi("bob", "", "--project", "lab", "env", "move", "lab", "--zone", "shanghai-1"); code == 0 {
		t.Errorf("bob moves what is ann's: %s", out)
	}
	w.must("ann", "env", "delete", "lab", "--yes")
	harness.Eventually(t, "no home is left", func() bool {
		homes, err := filepath.Glob(filepath.Join(w.Dir, "engine", "homes", "*"))
		return err == nil && len(homes) == 0
	})
}
