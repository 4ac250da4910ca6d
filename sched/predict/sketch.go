package predict

import "math/bits"

// A sketch counts positive numbers in buckets of a quarter octave.
type sketch struct {
	counts [buckets]uint32
	total  uint64
}

const (
	octaves = 40
	buckets = 4 * octaves
	// full is when a sketch is halved.
	full = 2048
)

// bucketOf is integer arithmetic, so that every machine counts alike: two bits after the leading one.
func bucketOf(x int64) int {
	if x < 4 {
		x = 4
	}
	n := bits.Len64(uint64(x)) - 3
	return min(n*4+int(uint64(x)>>n&3), buckets-1)
}

// low is the smallest number of a bucket.
func low(b int) int64 { return int64(4+b&3) << (b / 4) }

func (s *sketch) add(x int64) {
	s.counts[bucketOf(x)]++
	s.total++
	if s.total < full {
		return
	}
	s.total = 0
	for i, c := range s.counts {
		s.counts[i] = c / 2
		s.total += uint64(c / 2)
	}
}

// after calls f with each bucket's part above x: its bounds and how many are in it, in 1/1024.
func (s *sketch) after(x int64, f func(lo, hi int64, n uint64) bool) {
	for b := bucketOf(x); b < buckets; b++ {
		n := uint64(s.counts[b]) << 10
		if n == 0 {
			continue
		}
		lo, hi := low(b), low(b+1)
		if x > lo {
			if x >= hi {
				continue
			}
			n = n * uint64((hi-x)<<10/(hi-lo)) >> 10
			lo = x
		}
		if n > 0 && !f(lo, hi, n) {
			return
		}
	}
}

// residual is the mean of what is above x, less x; ok is false when nothing is.
func (s *sketch) residual(x int64) (int64, bool) {
	var n uint64
	var sum float64
	s.after(x, func(lo, hi int64, c uint64) bool {
		n += c
		sum += float64(c) * float64((lo+hi)/2-x)
		return true
	})
	if n == 0 {
		return 0, false
	}
	return int64(sum / float64(n)), true
}

// index is the least, over all numbers d, of the mean of what is above x, less x and at most d, by
// the share of it that is at most d; ok is false when nothing is above x.
func (s *sketch) index(x int64) (int64, bool) {
	var all uint64
	s.after(x, func(_, _ int64, c uint64) bool { all += c; return true })
	if all == 0 {
		return 0, false
	}
	var ended uint64
	var sum, best float64
	s.after(x, func(lo, hi int64, c uint64) bool {
		ended += c
		sum += float64(c) * float64((lo+hi)/2-x)
		if spent := (sum + float64(all-ended)*float64(hi-x)) / float64(ended); best == 0 || spent < best {
			best = spent
		}
		return true
	})
	return int64(best), true
}

// quantile is the number below which the share q (in 1/1024) of what is above x lies.
func (s *sketch) quantile(q int64, x int64) (int64, bool) {
	var n uint64
	s.after(x, func(_, _ int64, c uint64) bool { n += c; return true })
	if n == 0 {
		return 0, false
	}
	want, value := n*uint64(q)/1024, int64(0)
	s.after(x, func(lo, hi int64, c uint64) bool {
		if want <= c {
			value = lo + int64(float64(hi-lo)*float64(want)/float64(c))
			return false
		}
		want -= c
		value = hi
		return true
	})
	return value, true
}

// spread is how many times the upper quartile is the lower one, in 1/1024: small is steady.
func (s *sketch) spread() int64 {
	a, ok := s.quantile(256, 0)
	b, _ := s.quantile(768, 0)
	if !ok {
		return 1 << 40
	}
	return b << 10 / max(a, 1)
}
