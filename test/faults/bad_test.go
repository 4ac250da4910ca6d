package faults

import (
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/test/harness"
)

// TestBadInput: each ends in a clear state with a clear reason and no stray process.
func TestBadInput(t *testing.T) {
	asked(t)
	w := newWorld(t, "--demo")
	for name, c := range map[string]struct {
		command       []string
		phase         api.Phase
		cause, reason string
	}{
		"no-command":    {[]string{"no-such-command"}, api.PhaseFailed, "not-started", "StartFailed"},
		"mixed-ends":    {[]string{"sh", "-c", `exit $((RANK == 1))`}, api.PhaseFailed, "exit-code", "ExitedNonZero"},
		"flood":         {[]string{"sh", "-c", `if [ $RANK = 2 ]; then head -c 100000000 /dev/zero | tr '\0' 'x' | fold -w 200; fi`}, api.PhaseCompleted, "", "Succeeded"},
		"deaf-to-a-sig": {[]string{"sh", "-c", `trap "" TERM; if [ $RANK = 0 ]; then exit 3; fi; while :; do sleep 1; done`}, api.PhaseFailed, "exit-code", "ExitedNonZero"},
	} {
		w.submit(name, 0, c.command...)
		ended := w.until(name, "ended", func(t *api.TrainingTask) bool { return t.Status.Phase.Finished() })
		st := ended.Status
		if left := harness.Processes("FERMI_TASK_ID=" + ended.Meta.ID); len(left) > 0 {
			t.Errorf("%s left processes %v", name, left)
		}
		if st.Phase != c.phase || st.Reason != c.reason || c.cause != "" && (st.Failure == nil || st.Failure.Cause != c.cause) {
			t.Errorf("%s: %s %s %s %+v", name, st.Phase, st.Reason, st.Message, st.Failure)
		}
	}
	for name, spoil := range map[string]func(*api.TrainingTask){
		"framework": func(t *api.TrainingTask) { t.Spec.Framework = "teapot" },
		"ranks":     func(t *api.TrainingTask) { t.Spec.Roles[0].Ranks = -1 },
		"replicas":  func(t *api.TrainingTask) { t.Spec.Roles[0].Replicas = -1 },
	} {
		task := &api.TrainingTask{Meta: api.Meta{Name: "bad"}, Spec: api.TrainingTaskSpec{Roles: []api.Role{{Name: "worker", Replicas: 1, Command: []string{"true"}}}}}
		spoil(task)
		_, err := w.cl.Submit(t.Context(), task, false)
		if e := fault.From(err); err == nil || e.Code != fault.Invalid || len(e.Fields) == 0 || !strings.Contains(e.Fields[0].Path, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
