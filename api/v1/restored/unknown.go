package restored

import api "github.com/fermi-cluster/fermi/api/v1"

// Unknown is after how many failures it is not known how many steps were made again: the ranks told none, or none was made since the newest.
func Unknown(in *api.Interruptions) int {
	r := in.Newest()
	switch {
	case r == nil:
		return 0
	case r.LostSteps != nil, r.RunningAt != nil && r.EndedAt != nil && r.Step == 0: // counted
		return in.Untold
	}
	return min(in.Untold+1, in.Count)
}
