package history

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestOutline: every point lies between two of the outline that are at most so many points away, holes stay, and so do both ends.
func TestOutline(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 2, 31, 32, 33, 500, MaxBlock} {
		points := make([]Point, n)
		for i := range points {
			points[i] = Point{Time: time.Unix(int64(i), 0).UTC(), Step: int64(i), Value: random.NormFloat64()}
			switch random.IntN(50) {
			case 0:
				points[i].Value = math.NaN()
			case 1:
				points[i].Value = math.Inf(1)
			}
		}
		short, err := BlockOf(points, int64(n)).Outline()
		if err != nil {
			t.Fatal(err)
		}
		kept, err := DecodePoints(short.Data)
		if err != nil || !short.Outlined || short.Count != int64(n) || kept[0].Step != 0 || kept[len(kept)-1].Step != int64(n-1) || len(kept) > 3*(n/outlined+1)+2 {
			t.Fatalf("%d points: %+v, %d stay, %v", n, short.Extent, len(kept), err)
		}
		for _, p := range points {
			low, high, hole := false, false, false
			for _, k := range kept {
				if k.Step/outlined != p.Step/outlined {
					continue
				}
				low, high, hole = low || k.Value <= p.Value, high || k.Value >= p.Value, hole || math.IsNaN(k.Value)
			}
			if math.IsNaN(p.Value) && !hole || !math.IsNaN(p.Value) && (!low || !high) {
				t.Fatalf("%d points: step %d (%v) is not between two that stay", n, p.Step, p.Value)
			}
		}
	}
	few, err := Outlines([]Block{BlockOf(make([]Point, MaxBlock), MaxBlock), BlockOf(make([]Point, 900), 900), BlockOf(make([]Point, 900), 900)})
	if err != nil || len(few) != 2 || !few[0].Outlined || !few[1].Outlined {
		t.Errorf("the last block, which grows, has an outline: %v %v", few, err)
	}
}
