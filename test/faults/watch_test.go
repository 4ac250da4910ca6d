package faults

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
)

// TestStraggler: a rank that needs longer than the others for its own part of a step is named with the evidence, and
// nothing starts again; where the task says so it goes on without that rank's node.
func TestStraggler(t *testing.T) {
	asked(t)
	w := newWorld(t, "--demo")
	w.ring("named", "")
	w.ring("replaced", api.StragglersReplace)
	st := w.until("named", "named its slow rank", func(t *api.TrainingTask) bool {
		return slices.ContainsFunc(t.Status.Stragglers, func(s api.Straggler) bool { return s.Rank == 3 }) || t.Status.Phase.Finished()
	}).Status
	// A busy machine may hold up another one as well; the slowest comes first.
	if len(st.Stragglers) == 0 || st.Stragglers[0].Rank != 3 || st.Stragglers[0].Node == "" || st.Stragglers[0].Own <= st.Stragglers[0].Others {
		t.Errorf("%+v", st.Stragglers)
	}
	if st := w.goesOn("named"); st.Generation != 1 || st.Attempt != 1 || st.Failure != nil {
		t.Errorf("generation %d, attempt %d, %+v", st.Generation, st.Attempt, st.Failure)
	}
	st = w.until("replaced", "elsewhere", func(t *api.TrainingTask) bool {
		return t.Status.Phase.Finished() || t.Status.Attempt > 1 && t.Status.Phase == api.PhaseRunning
	}).Status
	if st.Attempt < 2 || len(st.Restarts) < 1 || st.Failure != nil {
		t.Errorf("attempt %d, %d restarts, %+v", st.Attempt, len(st.Restarts), st.Failure)
	}
	t.Log(w.told("replaced", "Straggler"))
	t.Log(w.told("replaced", "ReplacingStraggler"))
	w.goesOn("replaced")
}

// ring starts the sample's ring of four ranks, of which the last needs 0.3 s more for every step.
func (w *world) ring(name string, stragglers api.StragglerRule) {
	w.t.Helper()
	role := func(name string, ranks int, pause string) api.Role {
		return api.Role{
			Name: name, Ranks: ranks, Resources: api.Resources{CPU: 100, Memory: 1 << 28},
			Command: []string{"fermi", "sample", "train", "--steps", strconv.Itoa(long), "--step-time", pause},
		}
	}
	if _, err := w.cl.Submit(w.t.Context(), &api.TrainingTask{
		Meta: api.Meta{Name: name},
		Spec: api.TrainingTaskSpec{
			Restart: &api.RestartPolicy{MaxRestarts: 5}, Stragglers: stragglers,
			Roles: []api.Role{role("quick", 3, "20ms"), role("slow", 1, "320ms")},
		},
	}, false); err != nil {
		w.t.Fatal(err)
	}
}

// told is the newest event of a reason.
func (w *world) told(name, reason string) (message string) {
	w.t.Helper()
	page, err := w.cl.Events(w.t.Context(), client.EventOptions{Project: "default", Kind: api.KindTrainingTask, Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range page {
		if e.Reason == reason {
			message = e.Message.EN
		}
	}
	if message == "" {
		w.t.Errorf("%s: no event %s", name, reason)
	}
	return message
}

// printing is a script that knows nothing of us: its first rank prints its steps, and in the first generation stops in
// the middle.
const printing = `
[ $RANK = 0 ] || { [ $FERMI_GENERATION = 1 ] && sleep 1000; exit 0; }
for i in $(seq 1 40); do
  echo "step $i/100 loss 0.5"; sleep 0.3
  [ $FERMI_GENERATION.$i = 1.40 ] && sleep 1000
done
exit 0`

// TestPrintedSteps: a script without the SDK is followed by its lines: its pace is known, and that it hangs is seen.
func TestPrintedSteps(t *testing.T) {
	asked(t)
	w := newWorld(t, "--demo")
	w.submit("prints", 5, "sh", "-c", printing)
	paced := w.until("prints", "a pace", func(t *api.TrainingTask) bool { return t.Status.Pace != nil || t.Status.Phase.Finished() }).Status
	if paced.Pace == nil || paced.Pace.Step == 0 || paced.Pace.StepTime <= 0 {
		t.Errorf("%+v", paced.Pace)
	}
	st := w.done("prints")
	if st.Generation != 2 || st.Attempt != 1 || st.Interruptions == nil || st.Interruptions.Causes["hang"] != 1 {
		t.Errorf("generation %d, attempt %d, %+v", st.Generation, st.Attempt, st.Interruptions)
	}
	if log := w.log("prints"); !strings.Contains(log, "no progress since step 40") {
		t.Errorf("%s", log)
	}
}
