package diagnose

import "testing"

func TestVote(t *testing.T) {
	for name, c := range map[string]struct {
		list  []Silent
		rank  int
		alone bool
	}{
		"stopped":               {[]Silent{{0, 7, 'S', true}, {1, 9, 'T', false}, {2, 5, 'D', false}}, 1, true},
		"waits for a disk":      {[]Silent{{0, 7, 'S', true}, {1, 9, 'D', false}}, 1, true},
		"not in the collective": {[]Silent{{0, 5, 'S', true}, {1, 7, 'S', false}}, 1, true},
		"behind":                {[]Silent{{0, 7, 'S', false}, {1, 6, 'S', false}, {2, 7, 'S', false}}, 1, true},
		"nobody":                {[]Silent{{2, 7, 'S', true}, {1, 7, 'S', true}}, 1, false},
	} {
		if i, alone := Vote(c.list); c.list[i].Rank != c.rank || alone != c.alone {
			t.Errorf("%s: rank %d, alone %v", name, c.list[i].Rank, alone)
		}
	}
}
