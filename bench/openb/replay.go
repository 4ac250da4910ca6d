package openb

import (
	"math"
	"math/rand"

	"github.com/fermi-cluster/fermi/sched/pack"
)

// Policy judges places; pack.Demand is one.
type Policy interface {
	See(a pack.Ask)
	Version() uint64
	Score(r *pack.Room, a *pack.Ask) (score int64, devices uint64, ok bool)
}

// Result of one replay.
type Result struct {
	// Allocated percent of all devices at each arrived percent: the mean over the rows of a bucket.
	Allocated [131]float64
	Pods      int
	Placed    int
	// Scored counts calls of Score.
	Scored int
}

// replay offers pods one by one; what does not fit is dropped. Scores are kept per shape and node
// and judged anew only for nodes that changed, or when the policy's version did.
type replay struct {
	policy  Policy
	rooms   []pack.Room
	shapes  map[int]*cached
	changed []int32 // nodes in the order they were taken from
	ties    *rand.Rand
	result  Result
}

type cached struct {
	version uint64
	seen    int // of changed
	scores  []int64
}

const unfit = math.MinInt64

// Replay runs one seed. Ties go to the lowest rank, or, with a source, to any of the best.
func (t *Trace) Replay(seed int64, policy Policy, ties *rand.Rand) Result {
	pods, rank := t.Arrivals(seed)
	r := &replay{policy: policy, rooms: make([]pack.Room, len(t.Nodes)), shapes: map[int]*cached{}, ties: ties}
	for i := range t.Nodes {
		r.rooms[rank[i]] = t.Nodes[i].Room()
	}
	var arrived, allocated int64
	var sum [len(r.result.Allocated)]float64
	var rows [len(sum)]int
	for i := range pods {
		policy.See(pods[i].Ask)
		arrived += pods[i].Devices()
		if r.place(&pods[i]) {
			allocated += pods[i].Devices()
			r.result.Placed++
		}
		if b := int(math.Round(100 * float64(arrived) / float64(t.Capacity))); b < len(sum) {
			sum[b] += 100 * float64(allocated) / float64(t.Capacity)
			rows[b]++
		}
	}
	for b := range sum {
		r.result.Allocated[b] = sum[b] / float64(max(rows[b], 1))
	}
	r.result.Pods = len(pods)
	return r.result
}

func (r *replay) place(p *Pod) bool {
	best, devices, ok := r.choose(p)
	if ok {
		r.shift(best, devices, &p.Ask, +1)
	}
	return ok
}

// choose is the best node for a pod, and its devices there.
func (r *replay) choose(p *Pod) (node int, devices uint64, ok bool) {
	best := r.best(r.scores(p))
	if best < 0 {
		return 0, 0, false
	}
	_, devices, ok = r.policy.Score(&r.rooms[best], &p.Ask)
	if !ok {
		panic("a cached score fits, a fresh one does not")
	}
	return best, devices, true
}

// shift puts (+1) a pod on a node, or takes it off.
func (r *replay) shift(node int, devices uint64, a *pack.Ask, sign int) {
	room := &r.rooms[node]
	room.Standing += int64(sign)
	room.CPU -= int64(sign) * a.CPU
	room.Memory -= int64(sign) * a.Memory
	for d := range room.Free {
		if devices>>d&1 == 1 {
			room.Free[d] -= uint16(sign * int(a.Share))
		}
	}
	r.changed = append(r.changed, int32(node))
}

// scores of every node for the pod's shape, as of now.
func (r *replay) scores(p *Pod) []int64 {
	c := r.shapes[p.Shape]
	version := r.policy.Version()
	if c == nil || c.version != version || len(r.changed)-c.seen > len(r.rooms) {
		if c == nil {
			c = &cached{scores: make([]int64, len(r.rooms))}
			r.shapes[p.Shape] = c
		}
		for n := range r.rooms {
			c.scores[n] = r.score(n, p)
		}
	} else {
		for i := len(r.changed) - 1; i >= c.seen; i-- {
			c.scores[r.changed[i]] = r.score(int(r.changed[i]), p)
		}
	}
	c.version, c.seen = version, len(r.changed)
	return c.scores
}

func (r *replay) score(n int, p *Pod) int64 {
	r.result.Scored++
	if s, _, ok := r.policy.Score(&r.rooms[n], &p.Ask); ok {
		return s
	}
	return unfit
}

func (r *replay) best(scores []int64) int {
	best, equal := -1, 0
	high := int64(unfit)
	for n, s := range scores {
		switch {
		case s == unfit || s < high:
		case s > high:
			best, high, equal = n, s, 1
		case r.ties != nil:
			if equal++; r.ties.Intn(equal) == 0 {
				best = n
			}
		}
	}
	return best
}
