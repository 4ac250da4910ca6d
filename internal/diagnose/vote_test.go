package diagnose

import "testing"

func TestVote(t *testing.T) {
	for name, c := range map[string]struct {
		list  []Silent
		rank  int
		alone bool
	}{
		"stopped":               {[]Silent{{0, 7, 'S', true, false}, {1, 9, 'T', false, false}, {2, 5, 'D', false, false}}, 1, true},
		"waits for a disk":      {[]Silent{{0, 7, 'S', true, false}, {1, 9, 'D', false, false}}, 1, true},
		"not in the collective": {[]Silent{{0, 5, 'S', true, false}, {1, 7, 'S', false, false}}, 1, true},
		"behind":                {[]Silent{{0, 7, 'S', false, false}, {1, 6, 'S', false, false}, {2, 7, 'S', false, false}}, 1, true},
		"asleep, others in DDP": {[]Silent{{0, 7, 'S', false, true}, {1, 7, 'S', false, false}, {2, 7, 'S', false, true}}, 1, true},
		"in its gradients":      {[]Silent{{0, 7, 'S', true, false}, {1, 7, 'S', false, true}, {2, 7, 'S', true, false}}, 1, true},
		"on another way":        {[]Silent{{0, 7, 'S', false, true}, {1, 7, 'S', false, true}, {2, 7, 'S', true, false}}, 2, true},
		"one of each":           {[]Silent{{0, 7, 'S', true, false}, {1, 7, 'S', false, true}}, 1, true},
		"all in DDP":            {[]Silent{{1, 7, 'S', false, true}, {0, 7, 'S', false, true}}, 0, false},
		"nobody":                {[]Silent{{2, 7, 'S', true, false}, {1, 7, 'S', true, false}}, 1, false},
	} {
		if i, alone := Vote(c.list); c.list[i].Rank != c.rank || alone != c.alone {
			t.Errorf("%s: rank %d, alone %v", name, c.list[i].Rank, alone)
		}
	}
}
