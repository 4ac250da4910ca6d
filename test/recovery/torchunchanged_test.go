package recovery

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// unchanged submits a script that knows nothing of us, by the command that its user would type.
func (w *world) unchanged(name string, say func(*api.TrainingTaskSpec), env ...api.EnvVar) torchRun {
	w.t.Helper()
	task := &api.TrainingTask{
		Meta: api.Meta{Name: name},
		Spec: api.TrainingTaskSpec{
			Framework: "pytorch-ddp", Restart: &api.RestartPolicy{MaxRestarts: 3},
			Roles: []api.Role{{
				Name: "worker", Ranks: 2, Resources: api.Resources{CPU: 1000, Memory: 4 << 30}, Standby: &api.Standby{Preload: []string{"torch", "wave"}},
				Command: []string{torchPython}, Args: []string{"train_unchanged.py"}, Env: append(env, api.EnvVar{Name: "FILE", Value: "said"}),
			}},
		},
	}
	say(&task.Spec)
	return w.torchTask(task, 1)
}

// said waits for what both ranks say, which must be the same.
func (w *world) said(r torchRun, how string) string {
	w.t.Helper()
	var each [2][]byte
	w.eventually(how+" ranks of "+r.name, func() bool {
		for rank := range each {
			each[rank], _ = os.ReadFile(filepath.Join(r.dir, "said."+how+"."+strconv.Itoa(rank)))
		}
		return len(each[0]) > 0 && len(each[1]) > 0
	})
	if !bytes.Equal(each[0], each[1]) {
		w.t.Errorf("%s: %q and %q", r.name, each[0], each[1])
	}
	return strings.TrimSpace(string(each[0]))
}

// TestTorchUnchanged: what a task says about gradients and collectives reaches a script that knows nothing of it, in
// a fresh interpreter and forked from a standby; a hook of the script's own stays. make e2e-torch runs it.
func TestTorchUnchanged(t *testing.T) {
	killsWanted(t)
	w := newWorld(t)
	says := func(s *api.TrainingTaskSpec) {
		s.GradCompression, s.Strategy = api.CompressFP16, &api.Strategy{CollectiveTimeout: api.Duration(90e9)}
	}
	if got := w.said(w.unchanged("nothing", func(*api.TrainingTaskSpec) {}), "fresh"); got != "1800 fp32" {
		t.Errorf("a task that says nothing: %q", got)
	}
	if got := w.said(w.unchanged("hook", says, api.EnvVar{Name: "OWN_HOOK", Value: "1"}), "fresh"); got != "90 fp32" {
		t.Errorf("a script with a hook of its own: %q", got)
	}
	r := w.unchanged("says", says, api.EnvVar{Name: "WAIT", Value: "1"})
	if got := w.said(r, "fresh"); got != "90 fp16" {
		t.Errorf("a fresh interpreter: %q", got)
	}
	w.eventually("a standby", func() bool {
		logs, _ := filepath.Glob(filepath.Join(w.c.Dir, "engine", "replicas", r.id+"-worker-*", "launcher.log"))
		if len(logs) != 1 {
			return false
		}
		log, _ := os.ReadFile(logs[0])
		return bytes.Contains(log, []byte("standby ready"))
	})
	if !w.kill(r.training, 1) {
		t.Fatal("there is no rank 1")
	}
	if got := w.said(r, "forked"); got != "90 fp16" {
		t.Errorf("forked: %q", got)
	}
	w.eventually("the end", func() bool { return w.task(r.name).Status.Phase == api.PhaseCompleted })
	if own := strings.Join(w.task(r.name).Spec.Roles[0].Args, " "); own != "train_unchanged.py" {
		t.Errorf("the task's own command became %q", own)
	}
}
