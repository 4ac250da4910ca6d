package handover

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermi-cluster/fermi/internal/engine/kubeengine/keeper"
)

// TestEvidence: the keeper's own words, or whether it is time to ask if it is there.
func TestEvidence(t *testing.T) {
	began := time.Date(2026, 11, 19, 8, 0, 0, 0, time.UTC)
	a := keeper.Asked{Zone: "k1", Queue: "research", Keeper: keeper.Kueue, Since: began}
	texts := func(now time.Time) (en []string) {
		for _, e := range evidence(a, now) {
			if e.ZH == "" || e.ZH == e.EN {
				t.Errorf("%q has no Chinese", e.EN)
			}
			en = append(en, e.EN)
		}
		return en
	}
	given := "handed over to queue research of cluster k1 at 2026-11-19 08:00:00 UTC"
	for _, c := range []struct {
		after time.Duration
		said  []string
		want  []string
	}{
		{time.Second, nil, []string{given, "Kueue has not said anything of it yet"}},
		{time.Minute, nil, []string{given, "Kueue has not said anything of it: does its controller run, and is there a queue research?"}},
		{time.Minute, []string{"QuotaReserved=False: no room"}, []string{given, "Kueue says: QuotaReserved=False: no room"}},
	} {
		a.Said = c.said
		if d := cmp.Diff(c.want, texts(began.Add(c.after))); d != "" {
			t.Error(d)
		}
	}
}
