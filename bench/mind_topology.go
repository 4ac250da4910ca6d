package main

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
)

// topologyCluster is 2,016 nodes in racks of 4 and leaves of 16, nearly full of gangs that come and go.
const topologyNodes, topologyRack, topologyLeaf = 2016, 4, 16

// topologyGang takes whole nodes for a while.
type topologyGang struct {
	at, length time.Duration
	nodes      int
	began      time.Duration
	stands     []int
	id         string
}

func topologyGangs(load float64, count int, seed uint64) []topologyGang {
	rnd := rand.New(rand.NewPCG(seed, 3))
	sizes := []int{1, 1, 1, 1, 2, 2, 2, 4, 4, 8, 8, 16}
	out := make([]topologyGang, count)
	mean := 0.0
	for _, s := range sizes {
		mean += float64(s) / float64(len(sizes))
	}
	mean += (64 - mean) / 100
	at := 0.0
	for i := range out {
		size := sizes[rnd.IntN(len(sizes))]
		if rnd.IntN(100) == 0 {
			size = 64
		}
		at += rnd.ExpFloat64() * mean / (load * topologyNodes) // in units of the mean length
		length := time.Duration(max(rnd.ExpFloat64(), .01) * float64(10*time.Hour))
		out[i] = topologyGang{at: time.Duration(at * float64(10*time.Hour)), length: length, nodes: size, id: fmt.Sprintf("g%06d", i)}
	}
	return out
}

// topologyResult counts gangs that a leaf could hold, and waits of the largest.
type topologyResult struct {
	fit, inLeaf int
	waits       sample
}

func (t *topologyResult) note(g *topologyGang, now time.Duration) {
	if g.nodes == 64 {
		t.waits = append(t.waits, now-g.at)
	}
	if g.nodes < 2 || g.nodes > topologyLeaf {
		return
	}
	t.fit++
	leaf := g.stands[0] / topologyLeaf
	if !slices.ContainsFunc(g.stands, func(n int) bool { return n/topologyLeaf != leaf }) {
		t.inLeaf++
	}
}

type topologyEnds []*topologyGang

func (h topologyEnds) Len() int { return len(h) }
func (h topologyEnds) Less(i, j int) bool {
	a, b := h[i], h[j]
	return a.began+a.length < b.began+b.length || a.began+a.length == b.began+b.length && a.id < b.id
}
func (h topologyEnds) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *topologyEnds) Push(x any)   { *h = append(*h, x.(*topologyGang)) }
func (h *topologyEnds) Pop() any {
	old := *h
	g := old[len(old)-1]
	*h = old[:len(old)-1]
	return g
}

// play lets gangs come and go; serve starts those it can, release gives a place back.
func playTopology(gangs []topologyGang, came func(*topologyGang, time.Duration), gone func(*topologyGang, time.Duration), serve func(time.Duration) []*topologyGang) topologyResult {
	var ends topologyEnds
	var res topologyResult
	for next := 0; next < len(gangs); {
		now := gangs[next].at
		if len(ends) > 0 && ends[0].began+ends[0].length <= now {
			g := heap.Pop(&ends).(*topologyGang)
			now = g.began + g.length
			gone(g, now)
		} else {
			came(&gangs[next], now)
			next++
		}
		for _, g := range serve(now) {
			g.began = now
			heap.Push(&ends, g)
			if next > len(gangs)/4 { // the cluster has filled
				res.note(g, now)
			}
		}
	}
	return res
}

// topologyRival goes by age, and takes the tightest rack that fits, then the tightest leaf, then the
// tightest leaves together. A gang that does not fit is passed by smaller ones.
func topologyRival(gangs []topologyGang) topologyResult {
	free := make([]bool, topologyNodes)
	for i := range free {
		free[i] = true
	}
	var waiting []*topologyGang
	count := func(size int) []int {
		out := make([]int, topologyNodes/size)
		for n, f := range free {
			if f {
				out[n/size]++
			}
		}
		return out
	}
	place := func(g *topologyGang) bool {
		pick := func(size int) bool {
			best, rooms := -1, count(size)
			for d, room := range rooms {
				if room >= g.nodes && (best < 0 || room < rooms[best]) {
					best = d
				}
			}
			if best < 0 {
				return false
			}
			for n := best * size; len(g.stands) < g.nodes; n++ {
				if free[n] {
					free[n] = false
					g.stands = append(g.stands, n)
				}
			}
			return true
		}
		if g.nodes <= topologyRack && pick(topologyRack) || g.nodes <= topologyLeaf && pick(topologyLeaf) {
			return true
		}
		rooms := count(topologyLeaf)
		order := make([]int, len(rooms))
		all := 0
		for d, room := range rooms {
			order[d] = d
			all += room
		}
		if all < g.nodes {
			return false
		}
		slices.SortStableFunc(order, func(a, b int) int { return rooms[b] - rooms[a] })
		for _, d := range order {
			for n := d * topologyLeaf; n < (d+1)*topologyLeaf && len(g.stands) < g.nodes; n++ {
				if free[n] {
					free[n] = false
					g.stands = append(g.stands, n)
				}
			}
		}
		return true
	}
	return playTopology(gangs,
		func(g *topologyGang, _ time.Duration) { waiting = append(waiting, g) },
		func(g *topologyGang, _ time.Duration) {
			for _, n := range g.stands {
				free[n] = true
			}
		},
		func(time.Duration) (started []*topologyGang) {
			waiting = slices.DeleteFunc(waiting, func(g *topologyGang) bool {
				if place(g) {
					started = append(started, g)
					return true
				}
				return false
			})
			return started
		})
}

func topologyFermi(gangs []topologyGang) (topologyResult, error) {
	c, q := sched.NewCluster(), sched.NewQueues()
	for i := range topologyNodes {
		n := sched.Node{
			Number: uint32(i + 1), Name: fmt.Sprintf("n%05d", i), Zone: "z", Rack: fmt.Sprintf("r%04d", i/topologyRack), Leaf: fmt.Sprintf("l%04d", i/topologyLeaf),
			CPU: 1 << 30, Memory: 1 << 50, Devices: slices.Repeat([]string{"A100"}, 8),
		}
		if err := c.SetNode(n); err != nil {
			return topologyResult{}, err
		}
	}
	epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	by := map[string]*topologyGang{}
	return playTopology(gangs,
		func(g *topologyGang, now time.Duration) {
			by[g.id] = g
			q.Add(&sched.Workload{
				ID: g.id, Queue: "q", User: "u", Name: "n", Submitted: epoch.Add(now),
				Roles: []sched.Role{{Name: "w", Replicas: g.nodes, Need: sched.Need{CPU: api.MilliCPU(1), Memory: 1, Devices: 8}}},
			})
		},
		func(g *topologyGang, now time.Duration) {
			c.Release(g.id)
			q.Stop(epoch.Add(now), g.id, true)
		},
		func(now time.Duration) (started []*topologyGang) {
			for more := true; more; {
				res := sched.Plan(epoch.Add(now), c, q, sched.Policy{NoPreemption: true})
				for _, d := range res.Decisions {
					g := by[d.Workload.ID]
					for _, s := range d.At[0] {
						g.stands = append(g.stands, int(s.Node)-1)
					}
					started = append(started, g)
				}
				more = res.More
			}
			return started
		}), nil
}

func mindTopology(ctx context.Context, r *report) error {
	count, seeds := 20_000, []int{1, 2, 3}
	if small() {
		count, seeds = 6000, seeds[:1]
	}
	r.Seeds = seeds
	for _, load := range []float64{.92, .95} {
		var ours, theirs topologyResult
		for _, seed := range seeds {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			gangs := topologyGangs(load, count, uint64(seed))
			a, err := topologyFermi(slices.Clone(gangs))
			if err != nil {
				return err
			}
			b := topologyRival(slices.Clone(gangs))
			ours.fit, ours.inLeaf, ours.waits = ours.fit+a.fit, ours.inLeaf+a.inLeaf, append(ours.waits, a.waits...)
			theirs.fit, theirs.inLeaf, theirs.waits = theirs.fit+b.fit, theirs.inLeaf+b.inLeaf, append(theirs.waits, b.waits...)
		}
		part := func(t topologyResult) float64 { return 100 * float64(t.inLeaf) / float64(max(t.fit, 1)) }
		title := fmt.Sprintf("load %.2f", load)
		fmt.Printf("%s: in one leaf %.1f %% (tightest rack, then leaf: %.1f %%); gangs of 512 devices waited p99 %s (%s)\n",
			title, part(ours), part(theirs), ours.waits.quantile(.99).Round(time.Minute), theirs.waits.quantile(.99).Round(time.Minute))
		r.atLeast(title+": gangs in one leaf, less the rival's [points]", part(ours)-part(theirs), 0)
		r.atMost(title+": wait of 512 devices p99 over the rival's", float64(ours.waits.quantile(.99))/float64(max(theirs.waits.quantile(.99), time.Minute)), 1)
	}
	return nil
}
