package fair_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fermi-cluster/fermi/sched/fair"
)

var now = time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)

func TestBadConfigurationsAreRefusedByQueueAndRule(t *testing.T) {
	total := []int64{100, 100}
	deep := []fair.Queue{{Name: "q0"}}
	for i := range fair.MaxDepth {
		deep = append(deep, fair.Queue{Name: fmt.Sprintf("q%d", i+1), Parent: fmt.Sprintf("q%d", i)})
	}
	tests := map[string]struct {
		queues []fair.Queue
		want   fair.Error
	}{
		"no name":         {[]fair.Queue{{}}, fair.Error{Problem: fair.NoName}},
		"twice":           {[]fair.Queue{{Name: "a"}, {Name: "a"}}, fair.Error{Queue: "a", Problem: fair.Twice}},
		"negative weight": {[]fair.Queue{{Name: "a", Weight: -1}}, fair.Error{Queue: "a", Problem: fair.NegativeWeight, Got: -1}},
		"negative guarantee": {[]fair.Queue{{Name: "a", Guarantee: []int64{0, -5}}},
			fair.Error{Queue: "a", Problem: fair.NegativeAmount, Resource: 1, Got: -5}},
		"unknown parent": {[]fair.Queue{{Name: "a", Parent: "x"}}, fair.Error{Queue: "a", Problem: fair.UnknownParent, Other: "x"}},
		"itself":         {[]fair.Queue{{Name: "a", Parent: "a"}}, fair.Error{Queue: "a", Problem: fair.Cycle}},
		"cycle": {[]fair.Queue{{Name: "a", Parent: "b"}, {Name: "b", Parent: "c"}, {Name: "c", Parent: "a"}},
			fair.Error{Queue: "a", Problem: fair.Cycle}},
		"below a cycle": {[]fair.Queue{{Name: "z", Parent: "b"}, {Name: "b", Parent: "c"}, {Name: "c", Parent: "b"}},
			fair.Error{Queue: "z", Problem: fair.Cycle}},
		"limit below guarantee": {[]fair.Queue{{Name: "a", Guarantee: []int64{10}, Limit: []int64{9}}},
			fair.Error{Queue: "a", Problem: fair.BelowGuarantee, Got: 9, Bound: 10}},
		"over the parent": {[]fair.Queue{{Name: "a", Guarantee: []int64{10}}, {Name: "b", Parent: "a", Guarantee: []int64{11}}},
			fair.Error{Queue: "b", Problem: fair.OverParent, Other: "a", Got: 11, Bound: 10}},
		"children over-commit": {[]fair.Queue{{Name: "a", Guarantee: []int64{10}}, {Name: "b", Parent: "a", Guarantee: []int64{6}}, {Name: "c", Parent: "a", Guarantee: []int64{6}}},
			fair.Error{Queue: "c", Problem: fair.OverCommitted, Other: "a", Got: 12, Bound: 10}},
		"through a parent that declares none": {[]fair.Queue{{Name: "a", Guarantee: []int64{10}}, {Name: "m", Parent: "a"}, {Name: "b", Parent: "m", Guarantee: []int64{11}}},
			fair.Error{Queue: "b", Problem: fair.OverParent, Other: "a", Got: 11, Bound: 10}},
		"cluster over-committed": {[]fair.Queue{{Name: "a", Guarantee: []int64{60}}, {Name: "b", Guarantee: []int64{60}}},
			fair.Error{Queue: "b", Problem: fair.OverCommitted, Got: 120, Bound: 100}},
		"sums that would overflow": {[]fair.Queue{{Name: "a", Guarantee: []int64{1 << 62}}, {Name: "b", Guarantee: []int64{1 << 62}}},
			fair.Error{Queue: "a", Problem: fair.OverCommitted, Got: 1 << 62, Bound: 100}},
		"too deep": {deep, fair.Error{Queue: fmt.Sprintf("q%d", fair.MaxDepth), Problem: fair.TooDeep, Bound: fair.MaxDepth}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tree := fair.New(0)
			tree.SetTotal(total)
			if err := tree.Set([]fair.Queue{{Name: "kept", Limit: []int64{3}}}); err != nil {
				t.Fatal(err)
			}
			err := fair.Check(tc.queues, total)
			if over := tree.Set(tc.queues); (over == nil) != (tc.want.Problem == fair.OverCommitted && tc.want.Other == "") {
				t.Errorf("only what the cluster lacks may be set: %v", over)
			} else if over == nil {
				return // nodes come and go
			}
			var got *fair.Error
			if !errors.As(err, &got) {
				t.Fatalf("got %v", err)
			}
			if diff := cmp.Diff(tc.want, *got); diff != "" {
				t.Error(diff)
			}
			if text := got.Text(); text.EN == "" || text.ZH == "" {
				t.Error("no text")
			}
			if _, _, ok := tree.Room("kept", []int64{4}); ok {
				t.Error("a refused configuration changed the tree")
			}
		})
	}
}

// slow is the obvious version: a list of what is charged.
type slow struct {
	parents map[string]string
	charged []struct {
		queue string
		v     []int64
	}
}

func (s *slow) usage(queue string, dims int) []int64 {
	out := make([]int64, dims)
	for _, c := range s.charged {
		for at := c.queue; ; at = s.parents[at] {
			if at == queue {
				for i, x := range c.v {
					out[i] += x
				}
				break
			}
			if at == "" {
				break
			}
		}
	}
	return out
}

// TestQuotaIsNeitherLeakedNorCountedTwice drives random charges, refunds and new configurations,
// and compares every queue's usage with a slow sum.
func TestQuotaIsNeitherLeakedNorCountedTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e"}
		tree, s := fair.New(time.Hour), &slow{parents: map[string]string{}}
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			at := now.Add(time.Duration(step) * time.Minute)
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0, 1:
				queue := rapid.SampledFrom(names).Draw(t, "queue")
				v := rapid.SliceOfN(rapid.Int64Range(0, 9), 1, 3).Draw(t, "v")
				tree.Charge(at, queue, v)
				s.charged = append(s.charged, struct {
					queue string
					v     []int64
				}{queue, v})
			case 2:
				if len(s.charged) > 0 {
					i := rapid.IntRange(0, len(s.charged)-1).Draw(t, "which")
					tree.Refund(at, s.charged[i].queue, s.charged[i].v)
					s.charged = append(s.charged[:i:i], s.charged[i+1:]...)
				}
			case 3: // some queues stay, in another order; the others are forgotten while in use
				var qs []fair.Queue
				parents := map[string]string{}
				for i, n := range names {
					if !rapid.Bool().Draw(t, "keep") {
						continue
					}
					parent := ""
					if i > 0 {
						if _, ok := parents[names[i-1]]; ok && rapid.Bool().Draw(t, "below") {
							parent = names[i-1]
						}
					}
					parents[n] = parent
					qs = append(qs, fair.Queue{Name: n, Parent: parent})
				}
				if err := tree.Set(qs); err != nil {
					t.Fatal(err)
				}
				s.parents = parents
			}
			for _, n := range append(names, "") {
				want, got := s.usage(n, 3), tree.Usage(n)
				for len(got) < 3 {
					got = append(got, 0)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("queue %q: %s", n, diff)
				}
			}
		}
	})
}

func serve(tree *fair.Tree, rounds int, at time.Time) map[string]int {
	got := map[string]int{}
	for range rounds {
		name, ok := tree.Next(at)
		if !ok {
			break
		}
		tree.Charge(at, name, []int64{1})
		got[name]++
	}
	return got
}

func TestSharesFollowWeightsThroughTheTree(t *testing.T) {
	tree := fair.New(0)
	tree.SetTotal([]int64{1000})
	if err := tree.Set([]fair.Queue{{Name: "x", Weight: 3}, {Name: "y"}, {Name: "x1", Parent: "x"}, {Name: "x2", Parent: "x", Weight: 2}}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"x1", "x2", "y"} {
		tree.Ready(n, 1)
	}
	if diff := cmp.Diff(map[string]int{"x1": 100, "x2": 200, "y": 100}, serve(tree, 400, now)); diff != "" {
		t.Error(diff)
	}
	tree.Ready("", 1) // who names no queue is in the root
	if n, ok := tree.Next(now); n != "" || !ok {
		t.Error("the root's own:", n, ok)
	}
	tree.Ready("", -1)
	tree.SetPaused("x", true)
	if diff := cmp.Diff(map[string]int{"y": 10}, serve(tree, 10, now)); diff != "" {
		t.Error("a paused parent:", diff)
	}
}

func TestAnIdlePastGoesAhead(t *testing.T) {
	tree := fair.New(time.Hour)
	tree.SetTotal([]int64{100})
	tree.Charge(now, "busy", []int64{50})
	later := now.Add(5 * time.Hour)
	tree.Refund(later, "busy", []int64{50})
	tree.Ready("busy", 1)
	tree.Ready("idle", 1)
	got := serve(tree, 40, later)
	if got["idle"] != 40 {
		t.Error("who was idle did not catch up first:", got)
	}
	if much := serve(tree, 40, later.Add(24*time.Hour)); much["busy"] < 20 {
		t.Error("the past did not fade:", much)
	}
	if _, ok := tree.Next(now); !ok { // a clock that goes back
		t.Error("nobody is served")
	}
}

func TestGuaranteesComeFirstAndAreReclaimed(t *testing.T) {
	tree := fair.New(0)
	tree.SetTotal([]int64{100, 100})
	if err := tree.Set([]fair.Queue{{Name: "a", Guarantee: []int64{40}}, {Name: "b", Guarantee: []int64{20}}, {Name: "c"}}); err != nil {
		t.Fatal(err)
	}
	tree.Charge(now, "a", []int64{10, 0})
	tree.Charge(now, "b", []int64{30, 0})
	tree.Ready("a", 1)
	tree.Ready("c", 1)
	if n, _ := tree.Next(now); n != "a" {
		t.Error("below its guarantee and not first:", n)
	}
	for _, tc := range []struct {
		taker, giver string
		v            []int64
		want         bool
	}{
		{"a", "b", []int64{30}, true},
		{"a", "b", []int64{31}, false},    // beyond the taker's guarantee
		{"b", "a", []int64{1}, false},     // the taker is over its own
		{"a", "c", []int64{30}, true},     // nothing guaranteed: all of it is borrowed
		{"c", "b", []int64{1}, false},     // no guarantee to reclaim
		{"a", "a", []int64{1}, false},     // not from oneself
		{"a", "b", []int64{0, 5}, false},  // nothing guaranteed of what is asked
		{"a", "b", []int64{30, 50}, true}, // only what is guaranteed counts
	} {
		if got := tree.Reclaims(tc.taker, tc.giver, tc.v); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}

func TestPriorityTakesOnlyWhatIsBorrowed(t *testing.T) {
	tree := fair.New(0)
	tree.SetTotal([]int64{100})
	if err := tree.Set([]fair.Queue{{Name: "a", Guarantee: []int64{20}}, {Name: "b"}}); err != nil {
		t.Fatal(err)
	}
	tree.Charge(now, "a", []int64{30})
	for _, tc := range []struct {
		gives int64
		want  bool
	}{{10, true}, {11, false}} {
		if got := tree.Borrows("b", "a", []int64{5}, []int64{tc.gives}); got != tc.want {
			t.Errorf("giving %d: %v", tc.gives, got)
		}
	}
	tree.Going("a", []int64{10}, +1) // what was asked to go is not there to be given
	if tree.Borrows("b", "a", []int64{5}, []int64{1}) || tree.Reclaims("a", "b", []int64{1}) {
		t.Error("taken twice")
	}
	tree.Going("a", []int64{10}, -1)
	if !tree.Borrows("a", "b", []int64{5}, []int64{50}) {
		t.Error("what has no guarantee is all borrowed")
	}
	// What it gives counts as well, if nobody asks for it: a could take it back.
	if err := tree.Set([]fair.Queue{{Name: "a", Guarantee: []int64{0, 20}}, {Name: "b"}}); err != nil {
		t.Fatal(err)
	}
	tree.Charge(now, "a", []int64{0, 30})
	if !tree.Borrows("b", "a", []int64{5}, []int64{5, 10}) || tree.Borrows("b", "a", []int64{5}, []int64{5, 11}) {
		t.Error("a guarantee is given away by who is asked for something else")
	}
}

func BenchmarkChargeAndNext(b *testing.B) {
	tree := fair.New(time.Hour)
	tree.SetTotal([]int64{1 << 40, 1 << 40, 1 << 40})
	var qs []fair.Queue
	for i := range 10 {
		qs = append(qs, fair.Queue{Name: fmt.Sprintf("t%d", i)})
		for k := range 10 {
			qs = append(qs, fair.Queue{Name: fmt.Sprintf("t%d-%d", i, k), Parent: fmt.Sprintf("t%d", i)})
		}
	}
	if err := tree.Set(qs); err != nil {
		b.Fatal(err)
	}
	for _, q := range qs {
		if q.Parent != "" {
			tree.Ready(q.Name, 1)
		}
	}
	at := now
	for b.Loop() {
		at = at.Add(time.Second)
		n, ok := tree.Next(at)
		if !ok {
			b.Fatal("nobody")
		}
		tree.Charge(at, n, []int64{1000, 1 << 30, 8000})
	}
}
