package openb

import (
	"container/heap"
	"math/rand"

	"github.com/fermi-cluster/fermi/sched/pack"
)

// Churned is what came of pods that come and go, in thousandths of devices, after the cluster has
// filled.
type Churned struct {
	Asked, Refused int64
	// Large is the part of Refused that asked for eight devices.
	Large int64
}

// Share of what was asked that was refused, in percent.
func (c Churned) Share() float64 { return 100 * float64(c.Refused) / float64(max(c.Asked, 1)) }

// leaver is a policy that is told when a pod has ended.
type leaver interface {
	Take(devices int64)
	Leave(devices int64)
}

type living struct {
	until   float64
	node    int
	devices uint64
	ask     *pack.Ask
}

type livingHeap []living

func (h livingHeap) Len() int           { return len(h) }
func (h livingHeap) Less(i, j int) bool { return h[i].until < h[j].until }
func (h livingHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *livingHeap) Push(x any)        { *h = append(*h, x.(living)) }
func (h *livingHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	*h = old[:len(old)-1]
	return l
}

// Churn lets pods of the trace come and go for so many mean lifetimes, of which the first half is not
// counted: they come at random, each as likely as the other, so many that load times all devices are
// asked for at a time; each lives for an exponential time, and who does not fit is refused.
func (t *Trace) Churn(seed int64, load, lifetimes float64, policy Policy) Churned {
	rng := rand.New(rand.NewSource(seed))
	rank := rng.Perm(len(t.Nodes))
	r := &replay{policy: policy, rooms: make([]pack.Room, len(t.Nodes)), shapes: map[int]*cached{}}
	for i := range t.Nodes {
		r.rooms[rank[i]] = t.Nodes[i].Room()
	}
	var all int64
	for i := range t.Pods {
		all += t.Pods[i].Devices()
	}
	rate := load * float64(t.Capacity) * float64(len(t.Pods)) / float64(all)
	told, _ := policy.(leaver)
	var out Churned
	var ends livingHeap
	for now := 0.0; now < lifetimes; now += rng.ExpFloat64() / rate {
		for len(ends) > 0 && ends[0].until <= now {
			l := heap.Pop(&ends).(living)
			r.shift(l.node, l.devices, l.ask, -1)
			if told != nil {
				told.Leave(int64(l.ask.Devices) * int64(l.ask.Share))
			}
		}
		p := &t.Pods[rng.Intn(len(t.Pods))]
		until := now + rng.ExpFloat64()
		policy.See(p.Ask)
		node, devices, ok := r.choose(p)
		if ok {
			heap.Push(&ends, living{until, node, devices, &p.Ask})
			r.shift(node, devices, &p.Ask, +1)
			if told != nil {
				told.Take(p.Devices())
			}
		}
		if now < lifetimes/2 {
			continue
		}
		out.Asked += p.Devices()
		if !ok {
			out.Refused += p.Devices()
			if p.Ask.Devices == 8 {
				out.Large += p.Devices()
			}
		}
	}
	return out
}
