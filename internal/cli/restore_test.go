package cli

import (
	"strconv"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/clitest"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestRestoreNeedsAStep(t *testing.T) {
	f := clitest.New(t)
	f.Add(&api.TrainingTask{Meta: api.Meta{ID: "task-1", Name: "gpt-1", Project: "default"}})
	if got := fermi(f, t, "", "train", "restore", "gpt-1"); got.code != 2 || !strings.Contains(got.err, "--step") {
		t.Errorf("%+v", got)
	}
	if got := fermi(f, t, "", "train", "checkpoints", "gpt-1", "--pin", "1", "--unpin", "2"); got.code == 0 || !strings.Contains(got.err, "unpin") {
		t.Errorf("%+v", got)
	}
}

// TestCheckpointsAreVerified: the command waits for what it began, says what is damaged, and fails then.
func TestCheckpointsAreVerified(t *testing.T) {
	f := clitest.New(t)
	f.Add(&api.TrainingTask{Meta: api.Meta{ID: "task-1", Name: "gpt-1", Project: "default"}})
	one := func(step int64) api.Checkpoint {
		return api.Checkpoint{Name: strconv.FormatInt(step, 10), Step: step, Ranks: 1, Tiers: []api.CheckpointCopy{{Tier: "shared", CommittedAt: time.Now()}}}
	}
	f.Checkpoints = []api.Checkpoint{one(10), one(20)}
	list := []string{"train", "checkpoints", "gpt-1"}
	if got := fermi(f, t, "", list...); got.code != 0 || !strings.Contains(got.out, "VERIFIED") || strings.Contains(got.out, "METRICS") || strings.Count(got.out, " -") != 2 {
		t.Errorf("%+v", got)
	}
	if got := fermi(f, t, "", append(list, "--verify")...); got.code != 0 || strings.Contains(got.out, " -") || !strings.Contains(got.err, "2 checkpoints") {
		t.Errorf("%+v", got)
	}
	f.Checkpoints[1].Tiers[0].Damage = &api.CheckpointDamage{Message: fault.T("a chunk in packs/00/x", "packs/00/x 中的数据块")}
	if got := fermi(f, t, "", list...); got.code != 0 || !strings.Contains(got.out, "damaged") {
		t.Errorf("%+v", got)
	}
	if got := fermi(f, t, "", append(list, "--step", "10")...); got.code != 2 || !strings.Contains(got.err, "--verify") {
		t.Errorf("%+v", got)
	}
}
