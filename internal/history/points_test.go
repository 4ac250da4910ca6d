package history

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func drawValue(rt *rapid.T) float64 {
	return rapid.OneOf(rapid.Float64Range(-3, 3), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0})).Draw(rt, "v")
}

func drawPoints(rt *rapid.T, most int) []Point {
	n := rapid.IntRange(1, most).Draw(rt, "n")
	out := make([]Point, n)
	step := int64(0)
	for i := range out {
		step += rapid.Int64Range(0, 3).Draw(rt, "step")
		out[i] = Point{Time: time.Unix(int64(i), 7).UTC(), Step: step, Value: drawValue(rt)}
	}
	return out
}

func TestLinesRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var want []Line
		for range rapid.IntRange(0, 5).Draw(rt, "lines") {
			want = append(want, Line{Name: rapid.StringMatching(`[a-z准/ ]{1,9}`).Draw(rt, "name"), Rank: rapid.IntRange(-1, 9000).Draw(rt, "rank"), Generation: rapid.Int64Range(0, 9).Draw(rt, "g"), Points: drawPoints(rt, 30)})
		}
		if err := (Batch{TaskID: "t", Replica: "r", Seq: 1, Lines: want}).Check(); err != nil {
			rt.Fatal(err)
		}
		got, err := DecodeLines(EncodeLines(want))
		if err != nil || !cmp.Equal(want, got, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()) {
			rt.Fatalf("%v: %v", err, cmp.Diff(want, got))
		}
	})
}

func FuzzDecodeLines(f *testing.F) {
	f.Add(EncodeLines(nil))
	f.Add(EncodeLines([]Line{{Name: "loss", Rank: -1, Generation: 3, Points: []Point{{Time: time.Unix(1, 2), Step: 3, Value: 4.5}}}, {Name: "准", Points: []Point{{Time: time.Unix(5, 2)}}}}))
	f.Add([]byte{1, 255, 255, 255, 255, 1})
	f.Add([]byte{1, 1, 4, 'l', 'o', 's', 's', 0, 0, 255, 255, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		lines, err := DecodeLines(b)
		if err != nil {
			return
		}
		for _, l := range lines {
			if !isSeriesName(l.Name) || len(l.Points) > MaxBlock || l.Rank < OfReplica || l.Generation < 0 {
				t.Fatalf("accepted %+v", l)
			}
		}
		again := EncodeLines(lines)
		more, err := DecodeLines(again)
		if err != nil || len(more) != len(lines) || !bytes.Equal(again, EncodeLines(more)) {
			t.Fatalf("%d lines became %d: %v", len(lines), len(more), err)
		}
	})
}

// extremesOf are the lowest and highest number, and whether there is one that is none.
func extremesOf[P any](list []P, value func(P) float64) (low, high float64, not bool) {
	low, high = math.NaN(), math.NaN()
	for _, p := range list {
		switch v := value(p); {
		case math.IsNaN(v):
			not = true
		case math.IsNaN(low):
			low, high = v, v
		default:
			low, high = min(low, v), max(high, v)
		}
	}
	return low, high, not
}

func sameNumber(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// TestSamplerKeepsExtremes: whatever the range and the size, each tenth of the picture has the extremes of that tenth of the
// curve, points are a part of it in its order, and there are not too many.
func TestSamplerKeepsExtremes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		points := drawPoints(rt, 2000)
		most := rapid.IntRange(8, 300).Draw(rt, "most")
		byTime := rapid.Bool().Draw(rt, "byTime")
		lo, hi := points[0].Step, points[len(points)-1].Step
		if byTime {
			lo, hi = points[0].Time.UnixNano(), points[len(points)-1].Time.UnixNano()
		}
		s := NewSampler(most, byTime, lo, hi)
		for _, p := range points {
			s.Add(p.Time.UnixNano(), p.Step, p.Value)
		}
		got := s.Result()
		if len(got) > most+2 || s.Total() != int64(len(points)) {
			rt.Fatalf("%d points where %d were asked for, of %d", len(got), most, s.Total())
		}
		if len(points) <= most && len(got) != len(points) {
			rt.Fatalf("%d of %d points though all fit", len(got), len(points))
		}
		at := 0
		for _, g := range got {
			for at < len(points) && (points[at].Time.UnixNano() != g.Time || points[at].Step != g.Step || !sameNumber(points[at].Value, g.Value)) {
				at++
			}
			if at == len(points) {
				rt.Fatal("a point that is none of the curve, or out of order")
			}
			at++
		}
		l1, h1, n1 := extremesOf(points, func(p Point) float64 { return p.Value })
		l2, h2, n2 := extremesOf(got, func(p Sampled) float64 { return p.Value })
		if !sameNumber(l1, l2) || !sameNumber(h1, h2) || n1 != n2 {
			rt.Fatalf("extremes %v %v %v became %v %v %v", l1, h1, n1, l2, h2, n2)
		}
		if got[0].Step != points[0].Step || got[len(got)-1].Time != points[len(points)-1].Time.UnixNano() {
			rt.Fatal("the ends are not those of the curve")
		}
	})
}

func TestThinKeepsExtremes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		points := drawPoints(rt, 3000)
		blocks, err := Grow(nil, points)
		if err != nil {
			rt.Fatal(err)
		}
		thin, err := Thin(blocks)
		if err != nil {
			rt.Fatal(err)
		}
		var kept []Point
		var made int64
		for _, b := range thin {
			list, err := DecodePoints(b.Data)
			if err != nil || int64(len(list)) != b.Count || b.Count > MaxBlock {
				rt.Fatal(err, len(list), b.Count)
			}
			kept, made = append(kept, list...), made+b.Made
		}
		l1, h1, n1 := extremesOf(points, func(p Point) float64 { return p.Value })
		l2, h2, n2 := extremesOf(kept, func(p Point) float64 { return p.Value })
		if made != int64(len(points)) || len(kept) > len(points)/2+3*len(blocks) || !sameNumber(h1, h2) || n1 != n2 {
			rt.Fatalf("%d points of %d stand for %d, %v %v", len(kept), len(points), made, h1, h2)
		}
		if !n1 && !sameNumber(l1, l2) { // beside one that is no number the lowest may go
			rt.Fatalf("lowest %v became %v", l1, l2)
		}
	})
}

func TestSeriesName(t *testing.T) {
	for in, want := range map[string]string{" loss ": "loss", "a\nb\x1b[1m": "a_b_[1m", "": "", "准确率": "准确率", "a\xffb": "a_b"} {
		if got := SeriesName(in); got != want || got != "" && !isSeriesName(got) {
			t.Errorf("%q became %q", in, got)
		}
	}
	long := SeriesName(string(bytes.Repeat([]byte("准"), 100)))
	if !isSeriesName(long) {
		t.Errorf("%q", long)
	}
}
