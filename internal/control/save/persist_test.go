package save

import (
	"strconv"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/control/gang"
	"github.com/fermi-cluster/fermi/internal/link"
)

func persistedBy(steps ...int64) *gang.Gang {
	g := gathered()
	g.Task.Status.Rendezvous = &api.Rendezvous{World: 2}
	for i, step := range steps {
		parts := `[{"rank":` + strconv.Itoa(i) + `,"key":"parts/00/a-` + strconv.Itoa(i) + `","bytes":1,"hash":"` + hash0 + `","lease":"a","size":1,"new":1}]`
		g.Members[i].Said.Persisted = []link.Persisted{{Tier: link.TierLocal, Generation: 2, Step: step, Parts: []byte(parts)}}
	}
	return g
}

const hash0 = "0000000000000000000000000000000000000000000000000000000000000000"

func TestACheckpointNeedsEveryLauncher(t *testing.T) {
	v := newSaving(2, 0, now)
	if _, ok := proposal(main(persistedBy(5)), link.TierLocal, v); ok {
		t.Error("one of two")
	}
	if _, ok := proposal(main(persistedBy(5, 6)), link.TierLocal, v); ok {
		t.Error("two steps")
	}
	s := persistedBy(5, 5)
	s.Members[0].Said.Persisted[0].Metrics = map[string]float64{"loss": 0.5}
	p, ok := proposal(main(s), link.TierLocal, v)
	if !ok || p.Step != 5 || p.Generation != 2 || len(p.Parts) != 2 || p.Metrics["loss"] != 0.5 {
		t.Fatalf("%v %+v", ok, p)
	}
	if _, ok := proposal(main(s), link.TierLocal, newSaving(3, 0, now)); ok {
		t.Error("of an older generation")
	}
	v.settle(outcome{link.Committed{Tier: link.TierLocal, Generation: 2, Step: 5}, nil}, now)
	if _, ok := proposal(main(s), link.TierLocal, v); ok {
		t.Error("it is committed already")
	}
	s.Members[0].Said.Persisted[0].Parts = []byte(`[{"rank":0,"what":1}]`)
	if _, ok := proposal(main(s), link.TierLocal, newSaving(2, 0, now)); ok {
		t.Error("what is not understood is no part")
	}
}
