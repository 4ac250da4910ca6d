package diagnose

// Silent is a rank that makes no progress.
type Silent struct {
	Rank       int
	Step       int64
	State      byte // of its process: T, D, S, R
	Collective bool // it waits for other ranks
}

// Vote says which of silent ranks the others wait for: one that is stopped; else one that waits for a
// disk; else one outside of a collective while others are inside; else the one furthest behind. alone:
// it stands out. The list must not be empty.
func Vote(list []Silent) (guilty int, alone bool) {
	inside := 0
	for _, s := range list {
		if s.Collective {
			inside++
		}
	}
	blame := func(s Silent) int {
		switch {
		case s.State == 'T':
			return 3
		case s.State == 'D':
			return 2
		case inside > 0 && !s.Collective:
			return 1
		}
		return 0
	}
	for i, s := range list {
		b := list[guilty]
		if x, y := blame(s), blame(b); x > y || x == y && (s.Step < b.Step || s.Step == b.Step && s.Rank < b.Rank) {
			guilty = i
		}
	}
	for i, s := range list {
		if i != guilty && blame(s) == blame(list[guilty]) && s.Step == list[guilty].Step {
			return guilty, false
		}
	}
	return guilty, true
}
