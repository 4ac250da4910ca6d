package book

import (
	"cmp"
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/sched/cost"
)

// Job is one who can wait.
type Job struct {
	ID          string
	Length      time.Duration
	From, Until time.Time // it starts no earlier and, if there is room, no later
	Options     []Option  // at least one
	// Unit is what it is counted in. Sums in several units are compared by their shares.
	Unit string
}

// Option is a place with the rates of a stay there.
type Option struct {
	Place string // "": room is not counted
	Takes int64
	Rates []cost.Daily
}

// Stay is room that is taken already.
type Stay struct {
	Place    string
	From, To time.Time
	Takes    int64
}

// Start is what is booked for a job.
type Start struct {
	At     time.Time
	Option int
	Cost   cost.Nano
	// Late: there is no room in time; it is to start as soon as it can.
	Late bool
}

const (
	// worthwhile is the share, one in so many, that has to be saved by waiting.
	worthwhile = 100
	// budget is how many stays are looked at on the way to a plan that is better than the first.
	budget = 300_000
	// allOrders is up to how many jobs all orders are looked at.
	allOrders = 6
)

// Plan books all jobs, in the order in which they are given.
func Plan(room map[string]int64, taken []Stay, jobs []Job) []Start {
	p := &planner{room: room, stays: slices.Clone(taken), jobs: jobs, known: make([]map[spot]cost.Nano, len(jobs)), least: make([]float64, len(jobs)), scale: map[string]float64{}}
	alone := make([]Start, len(jobs))
	sums := map[string]float64{}
	for i := range jobs {
		p.known[i] = map[spot]cost.Nano{}
		alone[i] = p.bookAlone(i)
		sums[jobs[i].Unit] += float64(alone[i].Cost)
	}
	for unit, sum := range sums {
		p.scale[unit] = 1 / max(sum, 1)
	}
	for i := range jobs {
		p.least[i] = p.weigh(i, alone[i])
	}
	order := p.byLoss(alone)
	p.best = p.follow(order)
	if len(jobs) <= allOrders {
		p.all(order)
	} else {
		p.better(order)
	}
	out := make([]Start, len(jobs))
	for k, i := range p.best.order {
		out[i] = p.best.starts[k]
	}
	return out
}

// spot is a start that was looked at.
type spot struct {
	option int
	at     int64
}

// plan is an order with what comes of it.
type plan struct {
	order  []int
	starts []Start // in that order
	late   int
	sum    float64
}

func (a *plan) compare(b *plan) int {
	return cmp.Or(cmp.Compare(a.late, b.late), cmp.Compare(a.sum, b.sum))
}

type planner struct {
	room  map[string]int64
	stays []Stay
	jobs  []Job
	known []map[spot]cost.Nano
	least []float64
	scale map[string]float64
	best  plan
	looks int // at stays
	edges []edge
}

// cost of a whole stay. What starts at once is taken for a little less, so that nobody waits for a trifle.
func (p *planner) cost(i, option int, at time.Time) (sum, judged cost.Nano) {
	j := &p.jobs[i]
	key := spot{option, at.UnixNano()}
	sum, ok := p.known[i][key]
	if !ok {
		sum = cost.Over(at, at.Add(j.Length), j.Options[option].Rates...).Nano()
		p.known[i][key] = sum
	}
	if at.Equal(j.From) {
		return sum, min(sum, sum-sum/worthwhile+1)
	}
	return sum, sum
}

func (p *planner) weigh(i int, s Start) float64 { return float64(s.Cost) * p.scale[p.jobs[i].Unit] }

func (p *planner) bookAlone(i int) Start {
	all := p.stays
	p.stays = nil
	defer func() { p.stays = all }()
	return p.book(i)
}

// book finds the best start of a job beside the stays.
func (p *planner) book(i int) Start {
	j := &p.jobs[i]
	best, found, judged := Start{At: j.From, Late: true}, false, cost.Nano(0)
	for k := range j.Options {
		o := &j.Options[k]
		for _, at := range p.starts(j, o) {
			sum, value := p.cost(i, k, at)
			if found && (value > judged || value == judged && !at.Before(best.At)) {
				continue
			}
			if p.hasRoom(o, at, at.Add(j.Length)) {
				best, found, judged = Start{At: at, Option: k, Cost: sum}, true, value
			}
		}
	}
	if !found {
		for k := range j.Options {
			if sum, _ := p.cost(i, k, j.From); k == 0 || sum < best.Cost {
				best.Option, best.Cost = k, sum
			}
		}
	}
	return best
}

// starts are those at which the sum may be least: where a rate changes at one of its ends, and where it
// meets another stay.
func (p *planner) starts(j *Job, o *Option) []time.Time {
	if j.Until.Before(j.From) {
		return []time.Time{j.From}
	}
	out := cost.Starts(j.From, j.Until, j.Length, o.Rates...)
	for i := range p.stays {
		s := &p.stays[i]
		if s.Place != o.Place || o.Place == "" {
			continue
		}
		for _, at := range []time.Time{s.To, s.From.Add(-j.Length)} {
			if !at.Before(j.From) && !at.After(j.Until) {
				out = append(out, at)
			}
		}
	}
	return out
}

// hasRoom says that an option has room from a time to another.
func (p *planner) hasRoom(o *Option, from, to time.Time) bool {
	if o.Place == "" || o.Takes <= 0 {
		return true
	}
	left := p.room[o.Place] - o.Takes
	if left < 0 {
		return false
	}
	p.looks += 1 + len(p.stays)
	edges := p.edges[:0]
	for i := range p.stays {
		s := &p.stays[i]
		if s.Place != o.Place || !s.From.Before(to) || !s.To.After(from) {
			continue
		}
		begin := s.From
		if begin.Before(from) {
			begin = from
		}
		edges = append(edges, edge{begin, s.Takes}, edge{s.To, -s.Takes})
	}
	// At one time who leaves goes first.
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.takes, b.takes)) })
	p.edges = edges
	for _, e := range edges {
		if left -= e.takes; left < 0 {
			return false
		}
	}
	return true
}

// edge is where a stay begins or ends.
type edge struct {
	at    time.Time
	takes int64
}

func (p *planner) push(i int, s Start) {
	j := &p.jobs[i]
	o := &j.Options[s.Option]
	p.stays = append(p.stays, Stay{Place: o.Place, From: s.At, To: s.At.Add(j.Length), Takes: o.Takes})
}

func (p *planner) pop(count int) { p.stays = p.stays[:len(p.stays)-count] }

// follow books in an order.
func (p *planner) follow(order []int) plan {
	out := plan{order: slices.Clone(order)}
	for _, i := range order {
		s := p.book(i)
		p.push(i, s)
		out.add(p, i, s)
	}
	p.pop(len(order))
	return out
}

func (a *plan) add(p *planner, i int, s Start) {
	a.starts = append(a.starts, s)
	a.sum += p.weigh(i, s)
	if s.Late {
		a.late++
	}
}

// byLoss begins with who loses most if the hours that are best for it are gone: the difference
// between its first start and its best one.
func (p *planner) byLoss(alone []Start) []int {
	order := make([]int, len(p.jobs))
	loss := make([]float64, len(p.jobs))
	for i := range order {
		order[i] = i
		first, _ := p.cost(i, alone[i].Option, p.jobs[i].From)
		loss[i] = float64(first)*p.scale[p.jobs[i].Unit] - p.least[i]
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(loss[b], loss[a]), cmp.Compare(p.jobs[a].ID, p.jobs[b].ID))
	})
	return order
}

// all looks at every order, but for those that begin in a way that can't beat the best.
func (p *planner) all(order []int) {
	rest := 0.0
	for _, i := range order {
		rest += p.least[i]
	}
	p.descend(order, &plan{}, rest)
}

func (p *planner) descend(left []int, so *plan, rest float64) {
	if len(left) == 0 {
		if so.compare(&p.best) < 0 {
			p.best = plan{slices.Clone(so.order), slices.Clone(so.starts), so.late, so.sum}
		}
		return
	}
	for k, i := range left {
		if p.looks >= budget {
			return
		}
		s := p.book(i)
		next := plan{append(slices.Clip(so.order), i), slices.Clip(so.starts), so.late, so.sum}
		next.add(p, i, s)
		if bound := (plan{late: next.late, sum: next.sum + rest - p.least[i]}); bound.compare(&p.best) >= 0 {
			continue
		}
		p.push(i, s)
		p.descend(append(slices.Clone(left[:k]), left[k+1:]...), &next, rest-p.least[i])
		p.pop(1)
	}
}

// better moves one job forward at a time, as long as that helps and the budget lasts.
func (p *planner) better(order []int) {
	for again := true; again; {
		again = false
		for from := 1; from < len(order); from++ {
			for to := range from {
				if p.looks >= budget {
					return
				}
				tried := slices.Delete(slices.Clone(order), from, from+1)
				tried = slices.Insert(tried, to, order[from])
				if got := p.follow(tried); got.compare(&p.best) < 0 {
					p.best, order, again = got, tried, true
					break
				}
			}
		}
	}
}

// CheapestFirst orders the places of options by what a stay of a length costs there from a time on, after the one that is booked.
func CheapestFirst(options []Option, start time.Time, length time.Duration, booked string) []string {
	sums := map[string]cost.Sum{}
	var out []string
	for _, o := range options {
		if o.Place != "" {
			sums[o.Place] = cost.Over(start, start.Add(length), o.Rates...)
			out = append(out, o.Place)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int {
		switch booked {
		case a:
			return -1
		case b:
			return 1
		}
		return sums[a].Cmp(sums[b])
	})
	return out
}
