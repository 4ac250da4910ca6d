package historytest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

func seriesOf(name, replica string, rank int, generation int64) history.Series {
	return history.Series{Name: name, Replica: replica, Rank: rank, Generation: generation}
}

// PointsOf reads a whole series, or what of it is in a span.
func PointsOf(t testing.TB, h history.Metrics, task string, s history.Series, in history.Span) (out []history.Point, made int64) {
	t.Helper()
	ok(t, h.Points(context.Background(), task, s, in, func(b history.Block) error {
		made += b.Made
		list, err := history.DecodePoints(b.Data)
		if int64(len(list)) != b.Count || b.Count > history.MaxBlock {
			return fmt.Errorf("a block of %d says that it has %d", len(list), b.Count)
		}
		for _, p := range list {
			if e := b.Extent; p.Step < e.FirstStep || p.Step > e.LastStep || p.Time.UnixNano() < e.FirstTime || p.Time.UnixNano() > e.LastTime {
				return fmt.Errorf("a point is beside its block")
			}
			if in.Holds(p.Time.UnixNano(), p.Step) {
				out = append(out, p)
			}
		}
		return err
	}))
	return out, made
}

var odd = []float64{0, 1.5, -1e300, math.Inf(1), math.Inf(-1), math.NaN(), math.SmallestNonzeroFloat64}

func oddPoints(from, n int) (out []history.Point) {
	for i := from; i < from+n; i++ {
		out = append(out, history.Point{Time: epoch.Add(time.Duration(i*i%1_000_000) * time.Millisecond), Step: int64(i * 10), Value: odd[i%len(odd)]})
	}
	return out
}

// points: batches of many sizes, folded and not folded, come back as they were, each in its own series.
func points(t *testing.T, h history.History) {
	ctx := context.Background()
	random := rand.New(rand.NewPCG(1, 2))
	want := map[history.Series][]history.Point{}
	for seq := int64(1); seq <= 3*history.FoldRows+7; seq++ {
		b := history.Batch{TaskID: "task-1", Replica: "task-1-worker-0-1", Seq: 2 * seq, Dropped: seq}
		for _, name := range []string{"loss", "准确率"} {
			for rank := history.OfReplica; rank < 2; rank++ {
				s := seriesOf(name, b.Replica, rank, 1+seq/100)
				n := random.IntN(12)
				if seq == 20 {
					n = history.MaxBlock
				}
				if n > 0 {
					list := oddPoints(len(want[s]), n)
					want[s] = append(want[s], list...)
					b.Lines = append(b.Lines, history.Line{Name: name, Rank: rank, Generation: s.Generation, Points: list})
				}
			}
		}
		ok(t, h.AddPoints(ctx, b))
	}
	list, dropped, err := h.Series(ctx, "task-1")
	ok(t, err)
	if len(list) != len(want) || dropped != 3*history.FoldRows+7 {
		t.Fatalf("%d of %d series, %d dropped", len(list), len(want), dropped)
	}
	if !slices.IsSortedFunc(list, func(a, b history.Series) int {
		return slices.Compare([]string{a.Name, fmt.Sprint(a.Rank + 20), fmt.Sprint(a.Generation)}, []string{b.Name, fmt.Sprint(b.Rank + 20), fmt.Sprint(b.Generation)})
	}) {
		t.Fatalf("not in order: %v", list)
	}
	for _, s := range list {
		got, made := PointsOf(t, h, "task-1", s, history.Span{})
		same(t, want[s], got)
		if made != int64(len(want[s])) {
			t.Fatalf("%d points are said to be %d", len(want[s]), made)
		}
	}
	if got, _ := PointsOf(t, h, "task-2", list[0], history.Span{}); len(got) != 0 {
		t.Fatalf("%d points of nobody", len(got))
	}
	for name, bad := range map[string]history.Batch{
		"no task":         {Replica: "r", Seq: 1},
		"no number":       {TaskID: "t", Replica: "r"},
		"no name":         {TaskID: "t", Replica: "r", Seq: 1, Lines: []history.Line{{Points: oddPoints(0, 1)}}},
		"a line feed":     {TaskID: "t", Replica: "r", Seq: 1, Lines: []history.Line{{Name: "a\nb", Points: oddPoints(0, 1)}}},
		"no time":         {TaskID: "t", Replica: "r", Seq: 1, Lines: []history.Line{{Name: "n", Points: []history.Point{{}}}}},
		"too many points": {TaskID: "t", Replica: "r", Seq: 1, Lines: []history.Line{{Name: "n", Points: oddPoints(0, history.MaxBlock+1)}}},
	} {
		if err := h.AddPoints(ctx, bad); !fault.Is(err, fault.Invalid) {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// pointsAgain: a batch that comes again, also long after it was folded, changes nothing; two replicas don't share numbers.
func pointsAgain(t *testing.T, h history.History) {
	ctx := context.Background()
	var want []history.Point
	for seq := int64(1); seq <= history.FoldRows+3; seq++ {
		list := oddPoints(len(want), 3)
		want = append(want, list...)
		for _, again := range []int64{seq, seq, max(1, seq-2), 1} {
			b := history.Batch{TaskID: "task-1", Replica: "a", Seq: again, Lines: []history.Line{{Name: "loss", Generation: 1, Points: list}}}
			ok(t, h.AddPoints(ctx, b))
		}
		ok(t, h.AddPoints(ctx, history.Batch{TaskID: "task-1", Replica: "b", Seq: seq, Lines: []history.Line{{Name: "loss", Rank: 1, Generation: 1, Points: list[:1]}}}))
	}
	got, _ := PointsOf(t, h, "task-1", seriesOf("loss", "a", 0, 1), history.Span{})
	same(t, want, got)
	if got, _ := PointsOf(t, h, "task-1", seriesOf("loss", "b", 1, 1), history.Span{}); len(got) != history.FoldRows+3 {
		t.Fatalf("%d points of the other", len(got))
	}
}

// pointsRead: spans of steps and of times.
func pointsRead(t *testing.T, h history.History) {
	ctx := context.Background()
	var want []history.Point
	for seq := int64(1); seq <= 2*history.FoldRows+10; seq++ {
		var list []history.Point
		for range 40 {
			n := len(want) + len(list)
			list = append(list, history.Point{Time: epoch.Add(time.Duration(n) * time.Second), Step: int64(n), Value: float64(n)})
		}
		want = append(want, list...)
		ok(t, h.AddPoints(ctx, history.Batch{TaskID: "task-1", Replica: "a", Seq: seq, Lines: []history.Line{{Name: "loss", Points: list}}}))
	}
	s := seriesOf("loss", "a", 0, 0)
	at := func(n int64) *int64 { return &n }
	for _, bounds := range [][2]int64{{0, 0}, {5, 1040}, {2000, 3000}, {int64(len(want)) - 3, int64(len(want)) + 9}} {
		got, _ := PointsOf(t, h, "task-1", s, history.Span{FromStep: at(bounds[0]), ToStep: at(bounds[1])})
		end := min(int(bounds[1])+1, len(want))
		same(t, want[bounds[0]:end], got)
		got, _ = PointsOf(t, h, "task-1", s, history.Span{FromTime: at(want[bounds[0]].Time.UnixNano()), ToTime: at(want[end-1].Time.UnixNano())})
		same(t, want[bounds[0]:end], got)
	}
}

// pointsBeside: a reader sees each point once, in order, while they are added and folded.
func pointsBeside(t *testing.T, h history.History) {
	ctx := context.Background()
	const batches = 3 * history.FoldRows
	var wg sync.WaitGroup
	defer wg.Wait()
	done := make(chan struct{})
	wg.Go(func() {
		defer close(done)
		for seq := int64(1); seq <= batches; seq++ {
			p := history.Point{Time: epoch, Step: seq, Value: float64(seq)}
			if err := h.AddPoints(ctx, history.Batch{TaskID: "task-1", Replica: "a", Seq: seq, Lines: []history.Line{{Name: "loss", Points: []history.Point{p}}}}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		got, _ := PointsOf(t, h, "task-1", seriesOf("loss", "a", 0, 0), history.Span{})
		for i, p := range got {
			if p.Step != int64(i+1) {
				t.Fatalf("point %d of %d is step %d", i, len(got), p.Step)
			}
		}
		if over && len(got) != batches {
			t.Fatalf("%d of %d points", len(got), batches)
		}
	}
}

// pointsForgotten: nothing is left of a task, and everything of its neighbour.
func pointsForgotten(t *testing.T, h history.History) {
	ctx := context.Background()
	for _, task := range []string{"task-1", "task-2"} {
		for seq := int64(1); seq <= history.FoldRows+1; seq++ {
			ok(t, h.AddPoints(ctx, history.Batch{TaskID: task, Replica: "a", Seq: seq, Dropped: 4, Lines: []history.Line{{Name: "loss", Points: oddPoints(int(seq), 1)}}}))
		}
	}
	ok(t, h.ForgetPoints(ctx))
	ok(t, h.ForgetPoints(ctx, "task-1", "never there"))
	ok(t, h.ForgetPoints(ctx, "task-1"))
	for task, want := range map[string]int{"task-1": 0, "task-2": history.FoldRows + 1} {
		list, dropped, err := h.Series(ctx, task)
		ok(t, err)
		got, _ := PointsOf(t, h, task, seriesOf("loss", "a", 0, 0), history.Span{})
		if len(got) != want || len(list) != min(want, 1) || dropped != int64(min(want, 1)*4) {
			t.Fatalf("%s: %d points, %d series, %d dropped", task, len(got), len(list), dropped)
		}
	}
}

// pointsOutlined: full blocks inside a span are given in outline where that is asked for, in their place among the others; all are
// counted, peaks and holes are there.
func pointsOutlined(t *testing.T, h history.History) {
	ctx := context.Background()
	n := int64(0)
	for seq := int64(1); seq <= 2*history.FoldRows+10; seq++ {
		var list []history.Point
		for range 100 {
			n++
			p := history.Point{Time: epoch.Add(time.Duration(n) * time.Second), Step: n, Value: math.Sin(float64(n))}
			switch n {
			case 1777:
				p.Value = 1e6
			case 2500:
				p.Value = math.NaN()
			}
			list = append(list, p)
		}
		ok(t, h.AddPoints(ctx, history.Batch{TaskID: "task-1", Replica: "a", Seq: seq, Lines: []history.Line{{Name: "loss", Points: list}}}))
	}
	at := func(n int64) *int64 { return &n }
	for _, in := range []history.Span{{Outlines: true}, {Outlines: true, FromStep: at(1500), ToStep: at(9000)}, {Outlines: true, ToTime: at(epoch.Add(6000 * time.Second).UnixNano())}} {
		var last, count, kept, outlines int64
		var peak, hole bool
		ok(t, h.Points(ctx, "task-1", seriesOf("loss", "a", 0, 0), in, func(b history.Block) error {
			if b.FirstStep <= last {
				return fmt.Errorf("a block from %d on comes after %d", b.FirstStep, last)
			}
			last, count = b.LastStep, count+b.Count
			if b.Outlined {
				outlines++
				if in.FromStep != nil && b.FirstStep < *in.FromStep || in.ToStep != nil && b.LastStep > *in.ToStep {
					return fmt.Errorf("an outline of %d to %d lies across the bounds", b.FirstStep, b.LastStep)
				}
			}
			return history.EachPoint(b.Data, func(_, step int64, v float64) {
				kept++
				peak, hole = peak || step == 1777 && v == 1e6, hole || step == 2500 && math.IsNaN(v)
			})
		}))
		if outlines < 3 || !peak || !hole || kept >= count || in.FromStep == nil && in.ToTime == nil && count != n {
			t.Fatalf("%+v: %d outlines, %d of %d points, peak %v, hole %v", in, outlines, kept, count, peak, hole)
		}
	}
	ok(t, h.ForgetPoints(ctx, "task-1"))
	ok(t, h.Points(ctx, "task-1", seriesOf("loss", "a", 0, 0), history.Span{Outlines: true}, func(history.Block) error { return fmt.Errorf("an outline stayed") }))
}
