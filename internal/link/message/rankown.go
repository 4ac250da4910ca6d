package message

import "github.com/fermi-cluster/fermi/internal/link/linkpb"

// RankOwn is a rank's own part of a step, without waiting for others: the mean of its last steps, less the slowest quarter.
type RankOwn struct {
	Rank    int
	Seconds float64
	Steps   int // that it is of
}

func checkOwn(r *linkpb.Ranks) error {
	if len(r.GetOwn()) > maxHung {
		return Refuse("more than %d ranks on one launcher", maxHung)
	}
	for _, o := range r.GetOwn() {
		if o.GetRank() < 0 || o.GetRank() >= MaxWorld || o.GetSteps() < 1 || !(o.GetSeconds() >= 0 && o.GetSeconds() <= 1e9) {
			return Refuse("the own time of a rank can't be")
		}
	}
	return nil
}

func ownMessage(list []RankOwn) (out []*linkpb.RankOwn) {
	for _, o := range list[:min(len(list), maxHung)] {
		out = append(out, &linkpb.RankOwn{Rank: int32(o.Rank), Seconds: o.Seconds, Steps: int32(o.Steps)})
	}
	return out
}

func ownOf(list []*linkpb.RankOwn) (out []RankOwn) {
	for _, o := range list {
		out = append(out, RankOwn{Rank: int(o.GetRank()), Seconds: o.GetSeconds(), Steps: int(o.GetSteps())})
	}
	return out
}
