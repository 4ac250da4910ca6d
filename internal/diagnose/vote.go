package diagnose

// Silent is a rank that makes no progress.
type Silent struct {
	Rank       int
	Step       int64
	State      byte // of its process: T, D, S, R
	Collective bool // it waits for other ranks
	Backward   bool // it computes gradients, or waits there for those of others
}

// Vote says which of silent ranks the others wait for: one that is stopped; else one that waits for a
// disk; else one outside of collectives and gradients while others are inside; else, where some are in a collective and some
// in their gradients, the fewer of them, which are on another way through the program; else the one furthest behind. alone:
// it stands out. The list must not be empty.
func Vote(list []Silent) (guilty int, alone bool) {
	collective, backward := 0, 0
	for _, s := range list {
		if s.Collective {
			collective++
		} else if s.Backward {
			backward++
		}
	}
	outside := len(list) - collective - backward
	blame := func(s Silent) int {
		switch {
		case s.State == 'T':
			return 3
		case s.State == 'D':
			return 2
		case outside == len(list) || collective == len(list) || backward == len(list):
			return 0
		case outside > 0 && !s.Collective && !s.Backward, outside == 0 && s.Collective == (collective < backward):
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
