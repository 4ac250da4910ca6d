package history

import (
	"cmp"
	"math"
	"slices"
)

// Sampler makes a curve that fits a picture of one that may have millions of points: the range is cut into equal buckets, and
// of each the lowest and the highest point stay, with the first that is no number. So no peak and no hole is lost, however
// narrow. The first and the last point stay too. The zero value is not for use.
type Sampler struct {
	most   int
	byTime bool
	lo     int64
	width  float64 // of a bucket

	all     []Sampled // as long as they fit
	over    bool      // they did not
	buckets []bucket
	first   Sampled
	last    Sampled
	n       int64
}

// Sampled is a point of a picture.
type Sampled struct {
	Time  int64 // Unix nanoseconds
	Step  int64
	Value float64
	order int64
}

type bucket struct {
	low, high, not  Sampled
	numbers, others bool // it has any
}

// NewSampler takes at most about so many points of this range, by step or by time.
func NewSampler(most int, byTime bool, lo, hi int64) *Sampler {
	most = max(most, 8)
	n := max((most-2)/3, 2)
	s := &Sampler{most: most, byTime: byTime, lo: lo, width: (float64(hi) - float64(lo) + 1) / float64(n), buckets: make([]bucket, n)}
	if !(s.width > 0) {
		s.width = 1
	}
	return s
}

// Add takes the next point, in the order they were made.
func (s *Sampler) Add(t, step int64, value float64) {
	p := Sampled{t, step, value, s.n}
	if s.n == 0 {
		s.first = p
	}
	s.last = p
	s.n++
	if !s.over {
		if len(s.all) < s.most {
			s.all = append(s.all, p)
			return
		}
		s.over = true
		for _, q := range s.all {
			s.put(q)
		}
		s.all = nil
	}
	s.put(p)
}

// Pass says that so many points were left out here: they are counted.
func (s *Sampler) Pass(n int64) { s.n += n }

func (s *Sampler) put(p Sampled) {
	x := p.Step
	if s.byTime {
		x = p.Time
	}
	i := int((float64(x) - float64(s.lo)) / s.width)
	b := &s.buckets[min(max(i, 0), len(s.buckets)-1)]
	switch {
	case math.IsNaN(p.Value):
		if !b.others {
			b.not, b.others = p, true
		}
	case !b.numbers:
		b.low, b.high, b.numbers = p, p, true
	case p.Value < b.low.Value:
		b.low = p
	case p.Value > b.high.Value:
		b.high = p
	}
}

// Total is how many points there were.
func (s *Sampler) Total() int64 { return s.n }

// Result is the picture, in the order the points were made.
func (s *Sampler) Result() []Sampled {
	if !s.over {
		return s.all
	}
	out := make([]Sampled, 0, 3*len(s.buckets)+2)
	out = append(out, s.first)
	for _, b := range s.buckets {
		if b.numbers {
			out = append(out, b.low, b.high)
		}
		if b.others {
			out = append(out, b.not)
		}
	}
	return inOrder(append(out, s.last))
}

// inOrder sorts by the order the points were made in, each once.
func inOrder(list []Sampled) []Sampled {
	slices.SortFunc(list, func(a, b Sampled) int { return cmp.Compare(a.order, b.order) })
	return slices.CompactFunc(list, func(a, b Sampled) bool { return a.order == b.order })
}
