package launch

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/link"
)

// TestSpare: before it has a rank its interpreter has done its imports, and its first ranks are forked from
// it, whatever generation that is.
func TestSpare(t *testing.T) {
	eachWay(t, func(t *testing.T, w *world, make func(func(*engine.Replica), ...string) *replica) {
		r, _ := scripted(t, func(change func(*engine.Replica), command ...string) *replica {
			return make(func(s *engine.Replica) {
				change(s)
				s.Spare, s.Elastic = true, &engine.Elastic{World: 2}
			}, command...)
		}, &api.Standby{Preload: []string{"decimal"}})
		l := r.launch()
		said := r.ranks("a warm spare", func(s link.Ranks) bool { return s.Warm && s.Prepared })
		if said.Generation != 0 || !r.has(record.FileStart)() || r.has(record.FileGo)() {
			t.Errorf("%+v, start %v, go %v", said, r.has(record.FileStart)(), r.has(record.FileGo)())
		}
		r.generation(3, true)
		if err := l.wait(); err != nil {
			t.Fatal(err)
		}
		got := r.lines()
		slices.Sort(got)
		if d := cmp.Diff([]string{saidBy("", "forked")[0], saidBy("", "forked")[5]}, got); d != "" {
			t.Error(d)
		}
		if e := r.exit(); e.Reason != engine.ReasonSucceeded || len(r.marked()) > 0 {
			t.Errorf("%+v, left behind: %v", e, r.marked())
		}
	})
}

// TestSpareStopped: one that is never needed leaves nothing behind.
func TestSpareStopped(t *testing.T) {
	eachWay(t, func(t *testing.T, w *world, make func(func(*engine.Replica), ...string) *replica) {
		r, _ := scripted(t, make, &api.Standby{Preload: []string{"decimal"}})
		r.spec.Spare = true
		if err := record.Write(r.dir, record.FileReplica, r.spec); err != nil {
			t.Fatal(err)
		}
		l := r.launch()
		r.ranks("a warm spare", func(s link.Ranks) bool { return s.Warm })
		if err := w.server.hub.Stop(r.spec.Name, 0); err != nil {
			t.Fatal(err)
		}
		if err := l.wait(); err != nil {
			t.Fatal(err)
		}
		if e := r.exit(); e.Reason != engine.ReasonStopped || len(r.marked()) > 0 {
			t.Errorf("%+v, left behind: %v", e, r.marked())
		}
	})
}
