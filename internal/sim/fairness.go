package sim

import (
	"cmp"
	"slices"
	"time"
)

// jain is Jain's index: 1 when all are equal, 1/n when one has everything. None and all zero are 1.
func jain(values []float64) float64 {
	var sum, squares float64
	for _, x := range values {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(values)) * squares)
}

// fairness is how evenly the queues are served: of each that wants something, what it has over what
// it is due, which is the cluster's devices parted by weight, nobody given more than it wants.
type fairness struct {
	queues map[string]*claimant
	order  []*claimant // by name: sums must not hang on the order of a map
	known  bool        // last is of now
	last   float64
	many   bool
}

type claimant struct {
	name      string
	weight    float64
	has, want float64 // devices; want is what runs and waits
	due       float64
}

func newFairness(cfg Config) *fairness {
	f := &fairness{queues: map[string]*claimant{}}
	for _, q := range cfg.Queues {
		f.of(q.Meta.Name).weight = float64(max(q.Spec.Weight, 1))
	}
	return f
}

func (f *fairness) of(queue string) *claimant {
	c := f.queues[queue]
	if c == nil {
		c = &claimant{name: queue, weight: 1}
		f.queues[queue] = c
		at, _ := slices.BinarySearchFunc(f.order, queue, func(c *claimant, name string) int { return cmp.Compare(c.name, name) })
		f.order = slices.Insert(f.order, at, c)
	}
	f.known = false
	return c
}

func (f *fairness) wants(j *Job, sign int) {
	f.of(j.Task.Spec.Queue).want += float64(sign) * float64(j.Devices()) / 1000
}

func (f *fairness) has(j *Job, n float64) {
	c := f.of(j.Task.Spec.Queue)
	c.has += n
	c.want += n
}

// index is Jain's over the queues that want something now, and whether these are several.
func (f *fairness) index(capacity float64) (float64, bool) {
	if f.known {
		return f.last, f.many
	}
	f.known = true
	var active []*claimant
	for _, c := range f.order {
		if c.want > 1e-6 {
			active = append(active, c)
		}
	}
	share(capacity, active)
	values := make([]float64, len(active))
	for i, c := range active {
		values[i] = c.has / c.due
	}
	f.last, f.many = jain(values), len(active) > 1
	return f.last, f.many
}

// share gives each what it is due: who wants least for its weight first, the rest for the others.
func share(capacity float64, all []*claimant) {
	byWish := slices.Clone(all)
	slices.SortStableFunc(byWish, func(a, b *claimant) int { return cmp.Compare(a.want/a.weight, b.want/b.weight) })
	weight := 0.0
	for _, c := range byWish {
		weight += c.weight
	}
	for _, c := range byWish {
		c.due = max(min(c.want, capacity*c.weight/weight), 1e-9)
		capacity, weight = max(capacity-c.due, 0), weight-c.weight
	}
}

// slowdowns is Jain's index over users of how much longer than alone their jobs took.
func (r *Report) slowdowns() float64 {
	type sums struct{ slow, n float64 }
	by := map[string]*sums{}
	for _, l := range r.Lives {
		if l.End == never || l.Length <= 0 {
			continue
		}
		s := by[l.User]
		if s == nil {
			s = &sums{}
			by[l.User] = s
		}
		s.slow += float64(l.End-l.Submit) / float64(max(l.Length, 10*time.Minute)) // bounded slowdown
		s.n++
	}
	users := make([]string, 0, len(by))
	for u := range by {
		users = append(users, u)
	}
	slices.Sort(users)
	var values []float64
	for _, u := range users {
		values = append(values, by[u].n/by[u].slow)
	}
	return jain(values)
}
