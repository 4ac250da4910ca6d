package history

import (
	"math"
	"slices"
)

// outlined is how many points one part of an outline stands for.
const outlined = 32

// Outline is a block in short: of every so many points the lowest, the highest and the first that is no number stay, and of all of
// them the first and the last. A picture of a curve that has many times more points than the picture needs no more of it: a
// point that is left out lies between two that stay, at most so many points away.
func (b Block) Outline() (Block, error) {
	points, err := DecodePoints(b.Data)
	if err != nil {
		return Block{}, err
	}
	var keep []int
	for from := 0; from < len(points); from += outlined {
		low, high, not := -1, -1, -1
		for i := from; i < min(from+outlined, len(points)); i++ {
			switch v := points[i].Value; {
			case math.IsNaN(v):
				if not < 0 {
					not = i
				}
			case low < 0:
				low, high = i, i
			case v < points[low].Value:
				low = i
			case v > points[high].Value:
				high = i
			}
		}
		keep = append(keep, low, high, not)
	}
	keep = append(keep, 0, len(points)-1)
	slices.Sort(keep)
	list := make([]Point, 0, len(keep))
	for _, i := range slices.Compact(keep) {
		if i >= 0 {
			list = append(list, points[i])
		}
	}
	b.Data, b.Outlined = EncodePoints(list), true
	return b, nil
}

// Outlines are those of blocks that will not grow any more, by their place in the list, of which the last is the last of its series:
// only that one grows, until it is full.
func Outlines(blocks []Block) (map[int]Block, error) {
	out := map[int]Block{}
	for i, b := range blocks {
		if i == len(blocks)-1 && b.Count < MaxBlock || b.Count < 4*outlined {
			continue
		}
		one, err := b.Outline()
		if err != nil {
			return nil, err
		}
		out[i] = one
	}
	return out, nil
}

// OutlinesDo says that outlines are enough for a picture of so many points of a curve that has total.
func OutlinesDo(total int64, most int) bool { return total/outlined >= 2*int64(most) }

// Bounds are the span's, with none where there is none: lowest and highest step, then time.
func (s Span) Bounds() [4]int64 {
	out := [4]int64{math.MinInt64, math.MaxInt64, math.MinInt64, math.MaxInt64}
	for i, p := range []*int64{s.FromStep, s.ToStep, s.FromTime, s.ToTime} {
		if p != nil {
			out[i] = *p
		}
	}
	return out
}
