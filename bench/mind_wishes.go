package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/sched"
	money "github.com/fermi-cluster/fermi/sched/cost"
)

// market is zones with prices and carbon of their own, partly full, and a gang that starts now and weighs both alike.
type market struct {
	price, carbon [][24]float64 // by zone
	free          []int         // nodes
	hour          int
	gang          nightGang
}

func newMarket(seed uint64) market {
	rnd := rand.New(rand.NewPCG(seed, 99))
	m := market{hour: rnd.IntN(24), gang: nightGang{nodes: 1 + rnd.IntN(3), hours: 1 + rnd.IntN(8)}}
	for range 2 + rnd.IntN(4) {
		var price, carbon [24]float64
		for h := range price {
			price[h], carbon[h] = float64(25*(2+rnd.IntN(8)))/100, float64(100+50*rnd.IntN(12))
		}
		m.price, m.carbon, m.free = append(m.price, price), append(m.carbon, carbon), append(m.free, rnd.IntN(5))
	}
	return m
}

// worth is what the gang comes to in a zone, both wishes against the least there is.
func (m *market) worth(zone int) float64 {
	sum := func(of [24]float64) (s float64) {
		for h := range m.gang.hours {
			s += of[(m.hour+h)%24]
		}
		return s
	}
	against := func(of [][24]float64) float64 {
		least := math.Inf(1)
		for _, z := range of {
			least = min(least, sum(z))
		}
		return sum(of[zone]) / least
	}
	return against(m.price) + against(m.carbon)
}

// fermi is the zone that the planner takes.
func (m *market) fermi() (int, error) {
	c, q := sched.NewCluster(), sched.NewQueues()
	number := uint32(0)
	for i := range m.price {
		z := &api.Zone{Meta: api.Meta{Name: fmt.Sprintf("z%d", i)}, Spec: api.ZoneSpec{Region: "r", Carbon: &api.Carbon{ByHour: m.carbon[i][:]}}}
		for h, f := range m.price[i] {
			z.Spec.Price.Windows = append(z.Spec.Price.Windows, api.PriceWindow{From: fmt.Sprintf("%02d:00", h), To: fmt.Sprintf("%02d:00", (h+1)%24), Factor: f})
		}
		c.SetZone(sched.Zone{Name: z.Meta.Name, Region: "r", Cost: money.ZoneOf(z)})
		for range m.free[i] {
			number++
			if err := c.SetNode(sched.Node{Number: number, Name: fmt.Sprintf("n%d", number), Zone: z.Meta.Name, CPU: 1 << 30, Memory: 1 << 50, Devices: slices.Repeat([]string{"A100"}, 8)}); err != nil {
				return 0, err
			}
		}
	}
	now := time.Date(2026, 1, 1, m.hour, 0, 0, 0, time.UTC)
	w := &sched.Workload{
		ID: "g", Queue: "q", Submitted: now, Expected: time.Duration(m.gang.hours) * time.Hour,
		Roles: []sched.Role{{Name: "w", Replicas: m.gang.nodes, Need: sched.Need{CPU: 1000, Memory: 1 << 30, Devices: 8, DeviceType: "A100"}}},
	}
	w.Weigh = where.Weights{Price: 1, Carbon: 1}
	q.Add(w)
	res := sched.Plan(now, c, q, sched.Policy{})
	if len(res.Decisions) != 1 {
		return 0, fmt.Errorf("the gang does not start")
	}
	for i := range m.price {
		if at := res.Decisions[0].At[0][0].Node; int(at) <= total(m.free[:i+1]) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("no zone has node %d", res.Decisions[0].At[0][0].Node)
}

func total(counts []int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// mindMarket holds gangs that start at once against the best zone with room.
func mindMarket(ctx context.Context, r *report, instances int) error {
	var gaps, first []float64
	for seed := uint64(0); len(gaps) < instances; seed++ {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m := newMarket(seed)
		best, some := math.Inf(1), 0.0
		for z, free := range m.free {
			if free < m.gang.nodes {
				continue
			}
			best = min(best, m.worth(z))
			if some == 0 {
				some = m.worth(z)
			}
		}
		if math.IsInf(best, 1) {
			continue
		}
		z, err := m.fermi()
		if err != nil {
			return err
		}
		gaps, first = append(gaps, 100*(m.worth(z)/best-1)), append(first, 100*(some/best-1))
	}
	fmt.Printf("gangs that start at once, price and carbon weighed alike: %.2f %% above the best zone with room (worst %.1f %%); the first zone with room: %.1f %%\n", mean(gaps), slices.Max(gaps), mean(first))
	r.atMost(fmt.Sprintf("price and carbon of gangs that start at once: above the optimum, mean of %d [%%]", instances), mean(gaps), 5).Among(gaps)
	return nil
}

// rush is six gangs for one node, each with a deadline.
type rush []nightGang

func newRush(seed uint64) rush {
	rnd := rand.New(rand.NewPCG(seed, 6))
	out, sum := make(rush, 6), 0
	for i := range out {
		out[i] = nightGang{nodes: 1, hours: 1 + rnd.IntN(5)}
		sum += out[i].hours
		out[i].deadline = out[i].hours + int(rnd.Float64()*float64(sum))
	}
	return out
}

// met counts deadlines that an order meets.
func (r rush) met(order []int) (n int) {
	at := 0
	for _, i := range order {
		if at += r[i].hours; at <= r[i].deadline {
			n++
		}
	}
	return n
}

// best looks at every order; edf is earliest deadline first.
func (r rush) best() (most int) {
	var descend func(done []int)
	descend = func(done []int) {
		if len(done) == len(r) {
			most = max(most, r.met(done))
			return
		}
		for i := range r {
			if !slices.Contains(done, i) {
				descend(append(slices.Clip(done), i))
			}
		}
	}
	descend(nil)
	return most
}

func (r rush) edf() int {
	order := []int{0, 1, 2, 3, 4, 5}
	slices.SortStableFunc(order, func(a, b int) int { return r[a].deadline - r[b].deadline })
	return r.met(order)
}

// fermi plays the gangs through the planner.
func (r rush) fermi() (int, error) {
	c, q := sched.NewCluster(), sched.NewQueues()
	if err := c.SetNode(sched.Node{Number: 1, Name: "n", Zone: "z", CPU: 1 << 30, Memory: 1 << 50, Devices: slices.Repeat([]string{"A100"}, 8)}); err != nil {
		return 0, err
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, g := range r {
		q.Add(&sched.Workload{
			ID: fmt.Sprintf("g%d", i), Queue: "q", User: "u", Name: fmt.Sprint(i), Submitted: now, Expected: time.Duration(g.hours) * time.Hour, Deadline: now.Add(time.Duration(g.deadline) * time.Hour),
			Roles: []sched.Role{{Name: "w", Replicas: 1, Need: sched.Need{CPU: 1000, Memory: 1 << 30, Devices: 8}}},
		})
	}
	var order []int
	for len(order) < len(r) {
		res := sched.Plan(now, c, q, sched.Policy{})
		for _, d := range res.Decisions {
			i := int(d.Workload.ID[1] - '0')
			order = append(order, i)
			now = now.Add(time.Duration(r[i].hours) * time.Hour)
			c.Release(d.Workload.ID)
			q.Stop(now, d.Workload.ID, true)
		}
		if len(res.Decisions) == 0 && !res.More {
			return 0, fmt.Errorf("the planner does not go on after %v", order)
		}
	}
	return r.met(order), nil
}

// mindDeadlines holds declared deadlines against the best of all orders.
func mindDeadlines(ctx context.Context, r *report) error {
	instances := 300
	if small() {
		instances = 60
	}
	r.Seeds = []int{0}
	ours, edf, best := 0, 0, 0
	for seed := range uint64(instances) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		one := newRush(seed)
		n, err := one.fermi()
		if err != nil {
			return err
		}
		ours, edf, best = ours+n, edf+one.edf(), best+one.best()
	}
	fmt.Printf("%d of %d deadlines met; earliest deadline first %d, the best order %d\n", ours, 6*instances, edf, best)
	r.atLeast("six gangs for one node: deadlines met, of those that the best order meets [%]", 100*float64(ours)/float64(best), 95)
	r.tell("the same, earliest deadline first [%]", 100*float64(edf)/float64(best))
	return nil
}
