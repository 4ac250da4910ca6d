package faults

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
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
	one := 1
	for name, c := range map[string]struct {
		command       []string
		phase         api.Phase
		cause, reason string
		rank          *int
	}{
		"no-command":    {[]string{"no-such-command"}, api.PhaseFailed, "not-started", "StartFailed", nil},
		"mixed-ends":    {[]string{"sh", "-c", `exit $((RANK == 1))`}, api.PhaseFailed, "exit-code", "ExitedNonZero", &one},
		"flood":         {[]string{"sh", "-c", `if [ $RANK = 2 ]; then head -c 100000000 /dev/zero | tr '\0' 'x' | fold -w 200; fi`}, api.PhaseCompleted, "", "Succeeded", nil},
		"deaf-to-a-sig": {[]string{"sh", "-c", `trap "" TERM; if [ $RANK = 0 ]; then exit 3; fi; while :; do sleep 1; done`}, api.PhaseFailed, "exit-code", "ExitedNonZero", new(int)},
	} {
		w.submit(name, 0, c.command...)
		ended := w.until(name, "ended", func(t *api.TrainingTask) bool { return t.Status.Phase.Finished() })
		st := ended.Status
		if left := harness.Processes("FERMI_TASK_ID=" + ended.Meta.ID); len(left) > 0 {
			t.Errorf("%s left processes %v", name, left)
		}
		if st.Phase != c.phase || st.Reason != c.reason || c.cause != "" && (st.Failure == nil || st.Failure.Cause != c.cause) || c.rank != nil && (st.Failure.Rank == nil || *st.Failure.Rank != *c.rank) {
			t.Errorf("%s: %s %s %s %+v", name, st.Phase, st.Reason, st.Message, st.Failure)
		}
	}
	w.deafToStop()
	w.refusals()
}

// deafToStop: ranks that ignore SIGTERM are gone when their task is stopped.
func (w *world) deafToStop() {
	w.t.Helper()
	const name = "deaf"
	w.submit(name, 0, "sh", "-c", `trap "" TERM; while :; do sleep 1; done`)
	w.until(name, "runs", func(t *api.TrainingTask) bool { return t.Status.Phase == api.PhaseRunning })
	if err := w.cl.Stop(w.t.Context(), "default", name); err != nil {
		w.t.Fatal(err)
	}
	ended := w.until(name, "ended", func(t *api.TrainingTask) bool { return t.Status.Phase.Finished() })
	if left := harness.Processes("FERMI_TASK_ID=" + ended.Meta.ID); len(left) > 0 || ended.Status.Phase != api.PhaseStopped {
		w.t.Errorf("%s %s, processes %v", ended.Status.Phase, ended.Status.Reason, left)
	}
}

// refusals: what can't be is refused at the door, with the field that says it and what could be.
func (w *world) refusals() {
	w.t.Helper()
	const role = `{"name":"worker","replicas":2,"ranks":2,"command":["true"]}`
	task := func(spec, roles string) string {
		return `{"kind":"TrainingTask","metadata":{"name":"bad"},"spec":{` + spec + `"roles":[` + roles + `]}}`
	}
	for name, c := range map[string]struct{ path, body, field, says string }{
		"unknown framework":         {"", task(`"framework":"teapot",`, role), "spec.framework", "pytorch-ddp"},
		"zero ranks":                {"", task(``, `{"name":"worker","ranks":0,"command":["true"]}`), "spec.roles[0].ranks", ""},
		"fewer than zero":           {"", task(``, `{"name":"worker","ranks":-1,"command":["true"]}`), "spec.roles[0].ranks", ""},
		"zero replicas":             {"", task(``, `{"name":"worker","replicas":0,"command":["true"]}`), "spec.roles[0].replicas", ""},
		"sizes that don't multiply": {"", task(`"framework":"megatron-lm","strategy":{"kind":"hybrid","tensor":3},`, role), "spec.strategy", "2 × 1 × 2"},
		"a pair that is none":       {"", task(`"framework":"horovod","strategy":{"kind":"tensor"},`, role), "spec.strategy.kind", "ddp"},
		"a master elsewhere": {
			"/existing", `{"taskName":"t","launchMode":"existing","distributedConfig":{"enabled":true,"nodeIds":["deaf"],"masterNode":"other"}}`, "distributedConfig.masterNode", "",
		},
	} {
		status, body := w.post(c.path, c.body)
		if status != http.StatusBadRequest || !strings.Contains(body, `"`+c.field) || !strings.Contains(body, c.says) {
			w.t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if _, err := w.cl.Get(w.t.Context(), api.KindTrainingTask, "default", "bad"); !fault.Is(err, fault.NotFound) {
		w.t.Errorf("a refused task is there: %v", err)
	}
}

// post sends a body as it is to the training tasks' route, which a client would not make.
func (w *world) post(path, body string) (status int, answer string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://"+w.c.Addr+"/api/v1/training-tasks"+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(w.c.Dir, "admin.token"))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}
