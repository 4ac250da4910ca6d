package order

import (
	"cmp"
	"slices"
	"time"
)

// Place is a place in the order of a priority.
type Place struct {
	Level int
	Turn  int // among those of the level, before age
}

// Job is one that has to be done by a time.
type Job struct {
	Takes time.Duration
	Due   time.Duration // from now on
	Level int           // it has by itself
}

// Punctual gives jobs, which come by when they are due and are done one after the other, their places. As
// long as all are in time by their levels they keep these. Else they change places among each other: as few
// as possible are late (Moore's rule: of those up to the first that would be late the longest is given up, and
// so on) and come last; the others keep their order if they are in time so, and else go by when they are due.
func Punctual(jobs []Job) []Place {
	usual := make([]int, len(jobs))
	for i := range usual {
		usual[i] = i
	}
	slices.SortStableFunc(usual, func(a, b int) int { return cmp.Compare(jobs[a].Level, jobs[b].Level) })
	inTime := fewestLate(jobs)
	late := slices.DeleteFunc(slices.Clone(usual), func(i int) bool { return slices.Contains(inTime, i) })
	first := slices.DeleteFunc(slices.Clone(usual), func(i int) bool { return slices.Contains(late, i) })
	at := time.Duration(0)
	for _, i := range first {
		if at += jobs[i].Takes; at > jobs[i].Due {
			first = inTime
			break
		}
	}
	out := make([]Place, len(jobs))
	for turn, i := range append(slices.Clone(first), late...) {
		out[i] = Place{Level: jobs[usual[turn]].Level, Turn: turn}
	}
	if len(late) == 0 && &first[0] != &inTime[0] {
		for i := range out { // as they are: by age
			out[i].Turn = 0
		}
	}
	return out
}

// fewestLate are those that are in time if as few as possible are late, in their order.
func fewestLate(jobs []Job) (in []int) {
	at := time.Duration(0)
	for i, j := range jobs {
		in = append(in, i)
		if at += j.Takes; at <= j.Due {
			continue
		}
		longest := 0
		for k := range in {
			if jobs[in[k]].Takes > jobs[in[longest]].Takes {
				longest = k
			}
		}
		at -= jobs[in[longest]].Takes
		in = slices.Delete(in, longest, longest+1)
	}
	return in
}
