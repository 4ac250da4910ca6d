package cli

import (
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestFromNamesACheckpoint(t *testing.T) {
	for text, want := range map[string]api.CheckpointFrom{"a": {Task: "a"}, "a@7": {Task: "a", Step: 7}} {
		var bad faults
		if got := bad.origin(text); *got != want || len(bad) > 0 {
			t.Errorf("%s: %+v %v", text, got, bad)
		}
	}
	for _, text := range []string{"a@", "a@0", "a@-1", "a@x", "a@1@2", "a@99999999999999999999"} {
		var bad faults
		if bad.origin(text); len(bad) != 1 || bad[0].Path != "--from" || bad[0].Message.ZH == "" {
			t.Errorf("%s: %v", text, bad)
		}
	}
}

func TestMetricsLine(t *testing.T) {
	for want, m := range map[string]map[string]float64{
		"": nil, "acc=1 loss=0.33333": {"loss": 1. / 3, "acc": 1}, "a=1 b=1 c=1 d=1 …": {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1},
	} {
		if got := metricsLine(m); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

func TestRestoreNeedsAStep(t *testing.T) {
	f := newFake(t)
	f.add(&api.TrainingTask{Meta: api.Meta{ID: "task-1", Name: "gpt-1", Project: "default"}})
	if got := f.fermi(t, "", "train", "restore", "gpt-1"); got.code != 2 || !strings.Contains(got.err, "--step") {
		t.Errorf("%+v", got)
	}
	if got := f.fermi(t, "", "train", "checkpoints", "gpt-1", "--pin", "1", "--unpin", "2"); got.code == 0 || !strings.Contains(got.err, "unpin") {
		t.Errorf("%+v", got)
	}
}

// TestCheckpointsAreVerified: the command waits for what it began, says what is damaged, and fails then.
func TestCheckpointsAreVerified(t *testing.T) {
	f := newFake(t)
	f.add(&api.TrainingTask{Meta: api.Meta{ID: "task-1", Name: "gpt-1", Project: "default"}})
	one := func(step int64) api.Checkpoint {
		return api.Checkpoint{Name: strconv.FormatInt(step, 10), Step: step, Ranks: 1, Tiers: []api.CheckpointCopy{{Tier: "shared", CommittedAt: time.Now()}}}
	}
	f.checkpoints = []api.Checkpoint{one(10), one(20)}
	list := []string{"train", "checkpoints", "gpt-1"}
	if got := f.fermi(t, "", list...); got.code != 0 || !strings.Contains(got.out, "VERIFIED") || strings.Contains(got.out, "METRICS") || strings.Count(got.out, " -") != 2 {
		t.Errorf("%+v", got)
	}
	if got := f.fermi(t, "", append(list, "--verify")...); got.code != 0 || strings.Contains(got.out, " -") || !strings.Contains(got.err, "2 checkpoints") {
		t.Errorf("%+v", got)
	}
	f.checkpoints[1].Tiers[0].Damage = &api.CheckpointDamage{Message: fault.T("a chunk in packs/00/x", "packs/00/x 中的数据块")}
	if got := f.fermi(t, "", list...); got.code != 0 || !strings.Contains(got.out, "damaged") {
		t.Errorf("%+v", got)
	}
	if err := (&session{err: io.Discard}).damaged(f.checkpoints, 0); fault.ReasonOf(err) != "Damaged" || !strings.Contains(err.Error(), "20") {
		t.Error(err)
	}
	if err := (&session{err: io.Discard}).damaged(f.checkpoints, 10); err != nil {
		t.Error(err)
	}
	if got := f.fermi(t, "", append(list, "--step", "10")...); got.code != 2 || !strings.Contains(got.err, "--verify") {
		t.Errorf("%+v", got)
	}
}
