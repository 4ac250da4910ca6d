package train

import (
	"io"
	"strings"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/usage"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestFromNamesACheckpoint(t *testing.T) {
	for text, want := range map[string]api.CheckpointFrom{"a": {Task: "a"}, "a@7": {Task: "a", Step: 7}} {
		var bad usage.Faults
		if got := origin(&bad, text); *got != want || len(bad) > 0 {
			t.Errorf("%s: %+v %v", text, got, bad)
		}
	}
	for _, text := range []string{"a@", "a@0", "a@-1", "a@x", "a@1@2", "a@99999999999999999999"} {
		var bad usage.Faults
		if origin(&bad, text); len(bad) != 1 || bad[0].Path != "--from" || bad[0].Message.ZH == "" {
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

// TestDamaged: what is damaged is named, of the step that was asked for.
func TestDamaged(t *testing.T) {
	one := func(step int64) api.Checkpoint {
		return api.Checkpoint{Step: step, Tiers: []api.CheckpointCopy{{Tier: "shared"}}}
	}
	list := []api.Checkpoint{one(10), one(20)}
	list[1].Tiers[0].Damage = &api.CheckpointDamage{Message: fault.T("a chunk in packs/00/x", "packs/00/x 中的数据块")}
	s := &call.Session{Err: io.Discard}
	if err := damaged(s, list, 0); fault.ReasonOf(err) != "Damaged" || !strings.Contains(err.Error(), "20") {
		t.Error(err)
	}
	if err := damaged(s, list, 10); err != nil {
		t.Error(err)
	}
}
