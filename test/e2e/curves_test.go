package e2e

import (
	"encoding/json"
	"net/url"
	"path/filepath"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/history/sqlstore"
	"github.com/fermi-cluster/fermi/test/harness"
)

type drawn struct {
	Items []struct {
		Name   string     `json:"name"`
		Rank   *int       `json:"rank"`
		Steps  []int64    `json:"steps"`
		Values []*float64 `json:"values"`
	} `json:"items"`
}

func (w *world) curve(name, curve string) (out drawn) {
	w.t.Helper()
	c, err := w.Client()
	if err != nil {
		w.t.Fatal(err)
	}
	raw, err := c.Raw(w.t.Context(), "/training-tasks/"+name+"/metrics/points", url.Values{"name": {curve}, "rank": {"all"}, "points": {"20000"}})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

// TestCurvesOutliveTheirServer: the server is killed again and again while a task reports its steps and another prints its loss;
// each report is a point, once, and none is left when the task was deleted.
func TestCurvesOutliveTheirServer(t *testing.T) {
	w := up(t, "--demo")
	w.submit(learner("reports", "20ms", nil))
	w.submit(shell("prints", 2, `i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo "step $i/200 loss=$i.5 lr: 1e-4"; sleep 0.05; done`))
	for round := range 3 {
		w.until("reports", "more points", func(*api.TrainingTask) bool {
			got := w.curve("reports", "step_time")
			return len(got.Items) == 4 && len(got.Items[0].Steps) > 100*(round+1)
		})
		w.Kill()
		w.start()
	}
	w.phase("reports", api.PhaseCompleted)
	w.phase("prints", api.PhaseCompleted)
	for _, c := range w.curve("reports", "step_time").Items {
		if n := len(c.Steps); n < 598 || c.Steps[n-1] != 600 {
			t.Errorf("rank %d has %d points, the last of %v", *c.Rank, n, c.Steps[max(0, n-1):])
		}
		for i, step := range c.Steps {
			if i > 0 && step != c.Steps[i-1]+1 {
				t.Fatalf("rank %d: step %d after %d", *c.Rank, step, c.Steps[i-1])
			}
		}
	}
	got := w.curve("prints", "loss")
	if len(got.Items) != 2 {
		t.Fatalf("%d curves of 2 replicas", len(got.Items))
	}
	for _, c := range got.Items { // of a rank that prints faster than is read, some lines are passed over
		for i, step := range c.Steps {
			if i > 0 && step <= c.Steps[i-1] || c.Values[i] == nil || *c.Values[i] != float64(step)+0.5 {
				t.Fatalf("point %d is step %d", i, step)
			}
		}
		if n := len(c.Steps); n < 10 || c.Steps[n-1] != 200 {
			t.Errorf("%d points, the last of %v", n, c.Steps[max(0, n-1):])
		}
	}
	contains(t, w.must("train", "metrics", "prints"), "loss", "lr", "step_time", "system/memory")
	contains(t, w.must("train", "metrics", "prints", "loss"), "200.5")
	id := w.task("prints").Meta.ID
	w.must("delete", "task", "prints")
	harness.Eventually(t, "the task to go", func() bool { return w.fermi("get", "task", "prints").code != 0 })
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	past, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(w.Dir, "history.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer past.Close()
	if list, _, err := past.Series(t.Context(), id); err != nil || len(list) != 0 {
		t.Errorf("%d curves of a deleted task, %v", len(list), err)
	}
}
