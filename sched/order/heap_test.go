package order_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fermi-cluster/fermi/sched/order"
)

type heaped struct{ rank, at int }

func (h *heaped) Before(other *heaped) bool { return h.rank < other.rank }
func (h *heaped) Lies() *int                { return &h.at }

// TestHeap compares with a sorted list.
func TestHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h order.Heap[*heaped]
		var in []*heaped
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 3).Draw(t, "op"); {
			case op > 1 || len(in) == 0:
				x := &heaped{rank: rapid.IntRange(0, 1000).Draw(t, "rank"), at: -1}
				h.Push(x)
				in = append(in, x)
			case op == 1:
				i := rapid.IntRange(0, len(in)-1).Draw(t, "who")
				h.Remove(in[i])
				if in[i].at != -1 {
					t.Fatal("one that was taken out lies at", in[i].at)
				}
				in = slices.Delete(in, i, i+1)
			default:
				x := in[rapid.IntRange(0, len(in)-1).Draw(t, "who")]
				x.rank = rapid.IntRange(0, 1000).Draw(t, "rank")
				h.Fix(x)
			}
			if h.Len() != len(in) || len(h.All()) != len(in) {
				t.Fatal(h.Len(), len(in))
			}
			for i, x := range h.All() {
				if x.at != i || x.rank < h.Top().rank {
					t.Fatalf("%+v at %d, the top is %+v", x, i, h.Top())
				}
			}
		}
	})
}
