package silence

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// keepsake is a file that only who was cut off has.
const keepsake = "from-who-was-cut-off"

// leave puts a file among the outputs of a replica, as its ranks could.
func (w *world) leave(name string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.c.Dir, "engine", "replicas", name, "output", keepsake), []byte(name), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// committed fails if anything of those counts whose generation was replaced: a file, a checkpoint after they came back, their end.
func (tr *training) committed(generation int, back time.Time) {
	tr.t.Helper()
	files, err := tr.cl.Outputs(tr.t.Context(), "default", tr.name)
	if err != nil {
		tr.t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f.Path, keepsake) {
			tr.t.Errorf("an output of who was cut off was taken: %s", f.Path)
		}
	}
	saved, err := tr.cl.Checkpoints(tr.t.Context(), "default", tr.name)
	if err != nil {
		tr.t.Fatal(err)
	}
	for _, c := range saved {
		late := slices.ContainsFunc(c.Tiers, func(t api.CheckpointCopy) bool { return t.CommittedAt.After(back) })
		if c.Generation <= int64(generation) && late {
			tr.t.Errorf("checkpoint %s of generation %d was committed after it had been replaced", c.Name, c.Generation)
		}
	}
	if s := tr.status(); s.Phase != api.PhaseRunning {
		tr.t.Errorf("the end of who was cut off counts: %s, %s", s.Phase, s.Reason)
	}
}

// TestCutOffCommitsNothing: one of four is cut off, alive, and the others go on without it. When it is joined again it has points,
// an end, and a file to hand over; nothing of that counts, its device was nobody else's meanwhile, and it ends.
func TestCutOffCommitsNothing(t *testing.T) {
	t.Parallel()
	w := farWorld(t)
	defer w.holders()()
	tr := w.train("apart", func(t *api.TrainingTask) {
		t.Spec.Checkpoint = &api.Checkpoints{Local: &api.CheckpointTier{Every: api.Duration(2 * time.Second)}}
	})
	w.until("it has a checkpoint", func() bool {
		saved, err := w.cl.Checkpoints(t.Context(), "default", tr.name)
		return err == nil && len(saved) > 0
	})
	victim, before, at := tr.replicas()[1], tr.status().Generation, time.Now()
	w.cutOff(victim.Name)
	w.until("it is given up", func() bool { tr.status(); return !tr.event(at, "SilentLost").IsZero() })
	tr.steps(before + 1)
	t.Logf("steps after %s", time.Since(at))
	if !alive(w.launcher(victim.Name)) {
		t.Fatal("who was cut off did not live on")
	}
	if n := w.node(victim.Node); n.Status.Holds.Of(victim.Name) == nil || n.Status.Holds.Closed() != 1 {
		t.Errorf("its device is open: %+v", n.Status.Holds)
	}
	attempt := tr.status().Attempt
	w.leave(victim.Name)
	back := time.Now()
	w.join(victim.Name)
	w.until("it has ended, and its device is free", func() bool {
		return !alive(w.launcher(victim.Name)) && len(w.node(victim.Node).Status.Holds) == 0
	})
	tr.steps(before + 1)
	tr.committed(before, back)
	if s := tr.status(); s.Attempt != attempt {
		tr.tell()
		t.Errorf("who came back cost another attempt: %d, it was %d", s.Attempt, attempt)
	}
}
