package history

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestPointsRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var want []Point
		for range rapid.IntRange(0, MaxBlock).Draw(rt, "n") {
			want = append(want, Point{Time: time.Unix(0, rapid.Int64().Draw(rt, "t")).UTC(), Step: rapid.Int64().Draw(rt, "s"), Value: rapid.Float64().Draw(rt, "v")})
		}
		got, err := DecodePoints(EncodePoints(want))
		if err != nil || len(got) != len(want) || len(want) > 0 && !cmp.Equal(want, got) {
			rt.Fatalf("%v: %v", err, cmp.Diff(want, got))
		}
	})
}

func FuzzDecodePoints(f *testing.F) {
	f.Add(EncodePoints(nil))
	f.Add(EncodePoints([]Point{{Time: time.Unix(1, 2), Step: 3, Value: 4.5}, {Time: time.Unix(2, 2), Step: 4, Value: 4.25}}))
	f.Add([]byte{1, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		points, err := DecodePoints(b)
		if err != nil {
			return
		}
		again, err := DecodePoints(EncodePoints(points))
		if err != nil || len(again) != len(points) || len(points) > MaxBlock {
			t.Fatalf("%d points became %d: %v", len(points), len(again), err)
		}
	})
}
