package workbench

import (
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/activity"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/quota"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/test/harness"
)

// told is what the server says of an environment's activity.
type told struct {
	Active  bool          `json:"active"`
	KeptBy  activity.Name `json:"keptBy"`
	Signals []struct {
		Name   activity.Name `json:"name"`
		Active bool          `json:"active"`
		Value  fault.Text    `json:"value"`
	} `json:"signals"`
}

func (w *world) activity(who, name string) (out told, err error) {
	w.t.Helper()
	err = client.View(w.t.Context(), w.people[who], devenv.Kind, "lab", name, "activity", &out)
	return out, err
}

// TestIdle: what nobody works in is warned in its terminal and stopped, with its home; what runs in the foreground of a terminal that nobody
// looks at keeps another; who may not see it is told nothing.
func TestIdle(t *testing.T) {
	w := newWorld(t, "--env-idle-most", "1h")
	if out, code := w.fermi("ann", "", "env", "create", "never", "--idle", "never", "--cpu", "500m", "--memory", "256Mi"); code == 0 || !strings.Contains(out, "spec.idle.never") {
		t.Errorf("against the operator's word: %s", out)
	}
	w.must("ann", "env", "create", "quiet", "--idle", "1m", "--cpu", "500m", "--memory", "256Mi")
	w.must("ann", "env", "create", "works", "--idle", "1m", "--cpu", "500m", "--memory", "256Mi")

	// Typing is activity, at once; so is a program in front of the shell.
	s, err := w.open("ann", "quiet", "main")
	if err != nil {
		t.Fatal(err)
	}
	s.write("echo kept > kept; echo typed-$((1+1))\n")
	s.until("typed-2")
	front, err := w.open("ann", "works", "main")
	if err != nil {
		t.Fatal(err)
	}
	front.write("sleep 1000\n")
	front.until("sleep 1000")
	harness.Eventually(t, "the signals are seen", func() bool {
		typed, err := w.activity("ann", "quiet")
		works, err2 := w.activity("ann", "works")
		if err != nil || err2 != nil {
			return false
		}
		process := false
		for _, x := range works.Signals {
			process = process || x.Name == activity.Process && x.Active && x.Value.EN == "sleep"
		}
		return typed.KeptBy == activity.Terminal && !typed.Active && works.Active && process
	})
	front.line.Hang() // nobody looks any more
	if out := w.must("ann", "env", "show", "works"); !strings.Contains(out, "Kept alive by: foreground process, now") || !strings.Contains(out, "sleep") {
		t.Error(out)
	}
	if _, err := w.activity("mal", "quiet"); !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Forbidden) {
		t.Errorf("another project's member: %v", err)
	}
	if out, code := w.fermi("bob", "", "env", "keep", "quiet", "--project", "lab"); code == 0 {
		t.Errorf("somebody else keeps it: %s", out)
	}

	s.until("fermi env keep quiet") // the warning stands in the terminal
	w.must("ann", "env", "keep", "quiet")
	kept := time.Now()
	harness.Eventually(t, "it is stopped", func() bool {
		e, err := client.Get[*devenv.DevEnvironment](t.Context(), w.people["ann"], "lab", "quiet")
		return err == nil && e.Status.Phase == api.PhaseStopped
	})
	if took := time.Since(kept); took < time.Minute || took > 2*time.Minute {
		t.Errorf("after it was kept it took %v", took)
	}
	e, err := client.Get[*devenv.DevEnvironment](t.Context(), w.people["ann"], "lab", "quiet")
	if err != nil || e.Status.Reason != "Idle" || !strings.Contains(e.Status.Message.EN, "kept by request") {
		t.Errorf("%+v, %v", e.Status, err)
	}
	if e, err := client.Get[*devenv.DevEnvironment](t.Context(), w.people["ann"], "lab", "works"); err != nil || e.Status.Phase != api.PhaseRunning || e.Status.Idle != nil {
		t.Errorf("what works: %+v, %v", e.Status, err)
	}
	w.must("ann", "env", "start", "quiet")
	if out := w.must("ann", "env", "shell", "quiet", "--", "cat", "kept"); out != "kept\n" {
		t.Errorf("its home has %q", out)
	}
}

// TestQuota: a refusal says which bound, and what uses it; what is stopped makes room; a start needs it again.
func TestQuota(t *testing.T) {
	w := newWorld(t, "--env-user-running", "2", "--env-most-cpu", "4")
	small := []string{"--cpu", "200m", "--memory", "64Mi"}
	create := func(who, name string, more ...string) (string, int) {
		return w.fermi(who, "", append(append([]string{"env", "create", name}, small...), more...)...)
	}
	for _, name := range []string{"one", "two"} {
		if out, code := create("ann", name); code != 0 {
			t.Fatal(out)
		}
	}
	if out, code := create("ann", "three"); code == 0 || !strings.Contains(out, "user ann") || !strings.Contains(out, "lab/one, lab/two") {
		t.Errorf("a third: %s", out)
	}
	if out, code := create("bob", "bobs"); code != 0 {
		t.Errorf("somebody else's: %s", out)
	}
	w.must("ann", "env", "stop", "one")
	if out, code := create("ann", "three"); code != 0 {
		t.Errorf("with room: %s", out)
	}
	if out, code := w.fermi("ann", "", "env", "start", "one"); code == 0 || !strings.Contains(out, "lab/three") {
		t.Errorf("a start without room: %s", out)
	}
	if out, code := w.fermi("ann", "", "env", "create", "wide", "--cpu", "5", "--memory", "64Mi"); code == 0 || !strings.Contains(out, "--cpu: ") {
		t.Errorf("more than the operator allows: %s", out)
	}
	u, err := client.Get[*api.User](t.Context(), w.admin, "", "ann")
	if err != nil {
		t.Fatal(err)
	}
	u.Spec.Environments = &quota.Environments{Running: -1}
	if _, err := client.Update(t.Context(), w.admin, u); err != nil {
		t.Fatal(err)
	}
	w.must("ann", "env", "start", "one")
	p, err := client.Get[*api.Project](t.Context(), w.admin, "", "lab")
	if err != nil {
		t.Fatal(err)
	}
	p.Spec.Environments = &quota.Environments{Running: 4}
	if _, err := client.Update(t.Context(), w.admin, p); err != nil {
		t.Fatal(err)
	}
	if out, code := create("bob", "more"); code == 0 || !strings.Contains(out, "project lab") {
		t.Errorf("beyond the project's: %s", out)
	}
	if _, err := client.Update(t.Context(), w.people["ann"], u); err == nil {
		t.Error("ann gives herself more")
	}
}
