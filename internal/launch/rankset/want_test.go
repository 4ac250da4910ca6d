package rankset

import (
	"testing"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/link"
)

// TestARankThatWaitsIsAnswered: once its tier has the step, or when it will not have it, and not before.
func TestARankThatWaitsIsAnswered(t *testing.T) {
	r := persistRanks()
	conns := []*rankConn{{wake: make(chan struct{}, 1)}, {wake: make(chan struct{}, 1), local: 1}}
	for _, c := range conns {
		r.Conns.list[c] = struct{}{}
	}
	r.take(0, word.Word{Want: &word.Want{Step: 9, Tier: link.TierShared}})
	r.take(1, word.Word{Want: &word.Want{Step: 8}})
	if w := r.said.Keeping.Wants; len(w) != 2 || w[0] != (link.Want{Step: 8}) || w[1] != (link.Want{Tier: link.TierShared, Step: 9}) {
		t.Fatalf("%+v", w)
	}
	tell := func(tier string, generation, step int64) {
		r.Watermark(link.Watermark{Generation: 4, Step: 9, Committed: []link.Committed{{Tier: tier, Generation: generation, Step: step}}})
	}
	tell(link.TierLocal, 3, 9)
	tell(link.TierLocal, 4, 7)
	if conns[0].out.durable != nil || conns[1].out.durable != nil {
		t.Fatal("answered by another generation, or by an older step")
	}
	tell(link.TierLocal, 4, 8)
	if d := conns[1].out.durable; d == nil || *d != (word.Durable{Step: 8}) || conns[0].out.durable != nil {
		t.Fatalf("%+v", d)
	}
	r.Watermark(link.Watermark{Generation: 4, Denied: []link.Denied{{Want: link.Want{Tier: link.TierShared, Step: 9}, Why: fault.T("no store", "没有存储")}}})
	if d := conns[0].out.durable; d == nil || d.Step != 9 || d.Why == "" || len(r.said.Keeping.Wants) != 0 {
		t.Fatalf("%+v %+v", d, r.said.Keeping)
	}
	r.take(1, word.Word{Want: &word.Want{Step: 8, Tier: link.TierLocal}}) // it is there already
	if d := conns[1].out.durable; d.Tier != link.TierLocal || d.Why != "" {
		t.Fatalf("%+v", d)
	}
	for _, line := range []string{`{"want":{"step":0,"tier":""}}`, `{"want":{"step":1,"tier":"moon"}}`} {
		if _, err := word.Parse([]byte(line)); err == nil {
			t.Error(line)
		}
	}
}
