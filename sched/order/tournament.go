package order

// Tournament among the numbers from 0 on: the winner of any range in O(log n), and who changed plays
// O(log n) games again.
type Tournament struct {
	size int32   // leaves
	won  []int32 // won[1] is the final; won[size+i] is i, or -1 where it does not take part
	// enters says who takes part, beats who wins.
	enters func(i int32) bool
	beats  func(a, b int32) bool
}

// NewTournament among n.
func NewTournament(n int, enters func(i int32) bool, beats func(a, b int32) bool) *Tournament {
	t := &Tournament{size: 1, enters: enters, beats: beats}
	for t.size < int32(n) {
		t.size *= 2
	}
	t.won = make([]int32, 2*t.size)
	for i := range t.size {
		t.won[t.size+i] = -1
		if i < int32(n) && enters(i) {
			t.won[t.size+i] = i
		}
	}
	for i := t.size - 1; i > 0; i-- {
		t.won[i] = t.game(t.won[2*i], t.won[2*i+1])
	}
	return t
}

func (t *Tournament) game(a, b int32) int32 {
	switch {
	case a < 0:
		return b
	case b < 0 || t.beats(a, b):
		return a
	}
	return b
}

// Update is to be called when i has changed.
func (t *Tournament) Update(at int32) {
	i := t.size + at
	t.won[i] = -1
	if t.enters(at) {
		t.won[i] = at
	}
	for i /= 2; i > 0; i /= 2 {
		t.won[i] = t.game(t.won[2*i], t.won[2*i+1])
	}
}

// Best of those from lo on and before hi; -1 when none of them takes part.
func (t *Tournament) Best(lo, hi int32) int32 {
	best := int32(-1)
	for lo, hi = lo+t.size, hi+t.size; lo < hi; lo, hi = lo/2, hi/2 {
		if lo&1 == 1 {
			best = t.game(best, t.won[lo])
			lo++
		}
		if hi&1 == 1 {
			hi--
			best = t.game(best, t.won[hi])
		}
	}
	return best
}
