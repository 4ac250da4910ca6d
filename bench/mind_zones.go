package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/sched"
	money "github.com/fermi-cluster/fermi/sched/cost"
)

// night is an instance of gangs that all want the cheap hours of one zone.
type night struct {
	nodes  int
	factor [24]float64 // of the price, by the hour
	gangs  []nightGang
}

type nightGang struct{ nodes, hours, deadline int }

func newNight(gangs int, seed uint64) night {
	rnd := rand.New(rand.NewPCG(seed, uint64(gangs)))
	n := night{nodes: 2}
	for h := range n.factor {
		n.factor[h] = float64(25*(1+rnd.IntN(12))) / 100
	}
	for range gangs {
		g := nightGang{nodes: 1 + rnd.IntN(2), hours: 1 + rnd.IntN(5)}
		g.deadline = min(gangs*4+g.hours+2+rnd.IntN(16), 46)
		n.gangs = append(n.gangs, g)
	}
	return n
}

// cost of a gang from a start, in hours, on.
func (n *night) cost(g nightGang, start float64) (sum float64) {
	end := start + float64(g.hours)
	for h := math.Floor(start); h < end; h++ {
		sum += n.factor[int(h)%24] * (min(h+1, end) - max(h, start))
	}
	return sum * float64(g.nodes)
}

// best is the least sum of costs with all deadlines met; ok is false where that can't be. Everything
// is in whole hours, so there is a best plan that is, too.
func (n *night) best() (least float64, ok bool) {
	order := slices.Clone(n.gangs)
	slices.SortFunc(order, func(a, b nightGang) int { return b.nodes*b.hours - a.nodes*a.hours })
	type start struct {
		at  int
		sum float64
	}
	options := make([][]start, len(order))
	rest := make([]float64, len(order)+1)
	for i, g := range order {
		for at := 0; at+g.hours <= g.deadline; at++ {
			options[i] = append(options[i], start{at, n.cost(g, float64(at))})
		}
		slices.SortStableFunc(options[i], func(a, b start) int { return int(math.Copysign(1, a.sum-b.sum)) })
	}
	for i := len(order) - 1; i >= 0; i-- {
		rest[i] = rest[i+1] + options[i][0].sum
	}
	var used [48]int
	least = math.Inf(1)
	var descend func(i int, sum float64)
	descend = func(i int, sum float64) {
		if i == len(order) {
			least = min(least, sum)
			return
		}
		g := order[i]
	next:
		for _, s := range options[i] {
			if sum+s.sum+rest[i+1] >= least {
				return
			}
			for h := s.at; h < s.at+g.hours; h++ {
				if used[h]+g.nodes > n.nodes {
					continue next
				}
			}
			for h := s.at; h < s.at+g.hours; h++ {
				used[h] += g.nodes
			}
			descend(i+1, sum+s.sum)
			for h := s.at; h < s.at+g.hours; h++ {
				used[h] -= g.nodes
			}
		}
	}
	descend(0, 0)
	return least, !math.IsInf(least, 1)
}

// fermi plays the instance through the planner: what all cost, and how many deadlines were missed.
func (n *night) fermi() (sum float64, missed int, err error) {
	z := &api.Zone{Meta: api.Meta{Name: "z"}, Spec: api.ZoneSpec{Region: "r"}}
	for h, f := range n.factor {
		z.Spec.Price.Windows = append(z.Spec.Price.Windows, api.PriceWindow{From: fmt.Sprintf("%02d:00", h), To: fmt.Sprintf("%02d:00", (h+1)%24), Factor: f})
	}
	c, q := sched.NewCluster(), sched.NewQueues()
	c.SetZone(sched.Zone{Name: "z", Region: "r", Cost: money.ZoneOf(z)})
	for i := range n.nodes {
		if err := c.SetNode(sched.Node{Number: uint32(i + 1), Name: fmt.Sprintf("n%d", i), Zone: "z", CPU: 1 << 30, Memory: 1 << 50, Devices: slices.Repeat([]string{"A100"}, 8)}); err != nil {
			return 0, 0, err
		}
	}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now, ends, by := begin, map[string]time.Time{}, map[string]nightGang{}
	for i, g := range n.gangs {
		id := fmt.Sprintf("g%d", i)
		by[id] = g
		length := time.Duration(g.hours) * time.Hour
		q.Add(&sched.Workload{
			ID: id, Queue: "q", User: "u", Name: "n", Submitted: now, Expected: length, Defer: api.DeferCheap, Deadline: now.Add(time.Duration(g.deadline) * time.Hour),
			Roles: []sched.Role{{Name: "w", Replicas: g.nodes, Need: sched.Need{CPU: 1000, Memory: 1 << 30, Devices: 8, DeviceType: "A100"}}},
		})
	}
	for done := 0; done < len(n.gangs); {
		for id, end := range ends {
			if !end.After(now) {
				c.Release(id)
				q.Stop(now, id, true)
				delete(ends, id)
				done++
			}
		}
		res := sched.Plan(now, c, q, sched.Policy{})
		for _, d := range res.Decisions {
			g := by[d.Workload.ID]
			end := now.Add(time.Duration(g.hours) * time.Hour)
			ends[d.Workload.ID] = end
			sum += n.cost(g, now.Sub(begin).Hours())
			if end.Sub(begin) > time.Duration(g.deadline)*time.Hour {
				missed++
			}
		}
		if res.More || len(res.Decisions) > 0 {
			continue
		}
		next := res.Wake
		for _, end := range ends {
			if next.IsZero() || end.Before(next) {
				next = end
			}
		}
		if !next.After(now) && done < len(n.gangs) {
			return 0, 0, fmt.Errorf("the planner does not go on at %s", now)
		}
		now = next
	}
	return sum, missed, nil
}

// mindZones holds gangs that contend for the cheap hours against the exact optimum.
func mindZones(ctx context.Context, r *report) error {
	instances := 300
	if small() {
		instances = 60
	}
	r.Seeds = []int{5000}
	missed, all := 0, 0
	for gangs := 2; gangs <= 6; gangs++ {
		var gaps, naive []float64
		for i := 0; len(gaps) < instances; i++ {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			n := newNight(gangs, uint64(5000+i))
			least, ok := n.best()
			if !ok {
				continue
			}
			sum, late, err := n.fermi()
			if err != nil {
				return err
			}
			missed, all = missed+late, all+gangs
			gaps = append(gaps, 100*(sum/least-1))
			at, now := 0.0, 0.0 // one after the other, at once
			for _, g := range n.gangs {
				now += n.cost(g, at)
				at += float64(g.hours)
			}
			naive = append(naive, 100*(now/least-1))
		}
		fmt.Printf("%d gangs: %.1f %% above the optimum (worst %.1f %%); one after the other at once: %.1f %%\n", gangs, mean(gaps), slices.Max(gaps), mean(naive))
		r.atMost(fmt.Sprintf("%d gangs for the same cheap hours: above the optimum, mean of %d [%%]", gangs, instances), mean(gaps), 10).Among(gaps)
	}
	fmt.Printf("%d of %d deadlines missed that the optimum meets\n", missed, all)
	r.atMost("deadlines missed that the optimum meets [%]", 100*float64(missed)/float64(all), 0)
	return mindMarket(ctx, r, instances)
}
