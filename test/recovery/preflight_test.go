package recovery

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// TestPreflight: two replicas with different versions of torch are told apart before they start; a
// task that requires better does not start. Their connections are real ones.
func TestPreflight(t *testing.T) {
	w := newWorld(t)
	dir, err := os.MkdirTemp("/var", "fermi-preflight") // every replica has a /tmp of its own
	if err != nil {
		t.Skip("no folder that replicas see can be made:", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	role := func(name, version string) api.Role {
		site := filepath.Join(dir, version)
		if err := os.MkdirAll(filepath.Join(site, "torch-"+version+".dist-info"), 0o755); err != nil {
			t.Fatal(err)
		}
		return api.Role{
			Name: name, Resources: api.Resources{CPU: 100, Memory: 1 << 28}, Env: []api.EnvVar{{Name: "PYTHONPATH", Value: site}},
			Command: []string{"true"},
		}
	}
	run := func(name string, mode api.Preflight, second string) *api.TrainingTask {
		_, err := w.cl.Submit(t.Context(), &api.TrainingTask{Meta: api.Meta{Name: name}, Spec: api.TrainingTaskSpec{
			Preflight: mode, Roles: []api.Role{role("a", "2.1.0"), role("b", second)},
		}}, false)
		if err != nil {
			t.Fatal(err)
		}
		w.eventually(name+" has ended", func() bool { return w.task(name).Status.Phase.Finished() })
		return w.task(name)
	}
	torch := func(st *api.PreflightStatus) string {
		for _, f := range st.Findings { // the room on this machine is its own business
			if f.Field == "torch" {
				return f.Message.EN
			}
		}
		return ""
	}
	same := run("same", "", "2.1.0")
	if st := same.Status.Preflight; same.Status.Phase != api.PhaseCompleted || st == nil || st.Pairs == 0 || st.LatencyMs <= 0 && st.OneMachine == 0 || torch(st) != "" || st.Devices != "" {
		t.Errorf("same: %s %s %+v", same.Status.Phase, same.Status.Message, st)
	}
	warned := run("warned", "", "1.13.1")
	if st := warned.Status.Preflight; warned.Status.Phase != api.PhaseCompleted || st == nil || !strings.Contains(torch(st), "torch differs: 1.13.1 on b-0, 2.1.0 on a-0") {
		t.Errorf("warned: %s %+v", warned.Status.Phase, st)
	}
	refused := run("refused", api.PreflightRequire, "1.13.1")
	if s := refused.Status; s.Phase != api.PhaseFailed || s.Reason != "PreflightFailed" || s.Generation != 0 || torch(s.Preflight) == "" {
		t.Errorf("refused: %s %s %s", s.Phase, s.Reason, s.Message)
	}
}

// TestTorchComputed: before ranks on a real machine start, their own PyTorch computes there behind their wall, and its
// result is right.
func TestTorchComputed(t *testing.T) {
	killsWanted(t)
	w := newWorld(t, "--quantum", "1s")
	name := "computed"
	// Where the machine was too busy to finish in time nothing is said, so it is tried again.
	w.eventually("a computation before the start", func() bool {
		name += "-again"
		r := w.torchTask(&api.TrainingTask{Meta: api.Meta{Name: name}, Spec: api.TrainingTaskSpec{
			Preflight: api.PreflightWarn,
			Roles:     []api.Role{{Name: "worker", Resources: api.Resources{CPU: 1000, Memory: 1 << 30}, Command: []string{torchPython, "-c", "pass"}}},
		}}, 1)
		w.eventually("its end", func() bool { return w.task(r.name).Status.Phase.Finished() })
		s := w.task(r.name).Status
		if s.Phase != api.PhaseCompleted || s.Preflight == nil || s.Preflight.FinishedAt == nil {
			t.Fatalf("%s: %s %+v", s.Phase, s.Message, s.Preflight)
		}
		t.Logf("preflight in %s: %q", s.Preflight.FinishedAt.Sub(s.Preflight.StartedAt), s.Preflight.Devices)
		return s.Preflight.Devices == api.DevicesComputed
	})
}
