package v1

import (
	"slices"

	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	maxWeight     = 1_000_000
	maxShare      = 1_000_000_000
	maxQueueDepth = 16
	maxShareKey   = 64
)

// The words of a queue's guarantee and limit beside device types.
const (
	ShareCPU     = "cpu"     // cores
	ShareMemory  = "memory"  // GiB
	ShareDevices = "devices" // of any type
)

// Validate lists every refused field. What needs the other queues is CheckQueues' business.
func (q *Queue) Validate() []fault.Field {
	var f faults
	s := &q.Spec
	f.count("spec.maxPending", s.MaxPending, 1, 1_000_000)
	if s.Weight != 0 {
		f.count("spec.weight", s.Weight, 1, maxWeight)
	}
	f.shares("spec.guarantee", s.Guarantee)
	f.shares("spec.limit", s.Limit)
	for _, key := range sortedKeys(s.Guarantee) {
		if most, ok := shareOf(s.Limit, key); ok && s.Guarantee[key] > most {
			f.add(child("spec.guarantee", key), "%d are guaranteed, but at most %d allowed; a guarantee above the limit is never met.", "保障 %d，但上限为 %d；高于上限的保障无法兑现。", s.Guarantee[key], most)
		}
	}
	if s.Parent != "" {
		f.name("spec.parent", s.Parent)
		if s.Parent == q.Meta.Name {
			f.add("spec.parent", "A queue is not its own parent.", "队列不能以自身为上级。")
		}
	}
	f.projects("spec.projects", s.Projects)
	f.list = append(f.list, s.Prefer.Check("spec.prefer")...)
	return f.list
}

func (f *faults) shares(at string, shares map[string]int) {
	if len(shares) > maxShareKey {
		f.add(at, "There are %d resources; at most %d are allowed.", "资源有 %d 种，最多允许 %d 种。", len(shares), maxShareKey)
		return
	}
	seen := map[string]string{}
	for _, key := range sortedKeys(shares) {
		path := child(at, key)
		f.word(path, key, true)
		f.count(path, shares[key], 0, maxShare)
		if other, twice := seen[FoldDevice(key)]; twice {
			f.add(path, "%s and %s are the same; keep one.", "%s 与 %s 相同，请只保留一个。", quote(key), quote(other))
		}
		seen[FoldDevice(key)] = key
	}
}

// shareOf looks a resource up in any spelling.
func shareOf(shares map[string]int, key string) (int, bool) {
	for _, k := range sortedKeys(shares) {
		if FoldDevice(k) == FoldDevice(key) {
			return shares[k], true
		}
	}
	return 0, false
}

// CheckQueues lists what is wrong with q as a part of the tree that all makes up: a parent that
// does not exist, a circle, a tree too deep, guarantees that the parent's do not cover. An entry
// of all with q's name is taken as q's former self.
func CheckQueues(q *Queue, all []*Queue) []fault.Field {
	var f faults
	byName := map[string]*Queue{}
	for _, other := range all {
		byName[other.Meta.Name] = other
	}
	byName[q.Meta.Name] = q
	if q.Spec.Parent != "" && byName[q.Spec.Parent] == nil {
		f.add("spec.parent", "There is no queue %s.", "队列 %s 不存在。", quote(q.Spec.Parent))
		return f.list
	}
	way := []string{q.Meta.Name}
	for at := q; at != nil && at.Spec.Parent != ""; at = byName[at.Spec.Parent] {
		if slices.Contains(way, at.Spec.Parent) {
			f.add("spec.parent", "The queues would go round in a circle: %s.", "队列将形成循环：%s。", list(append(way, at.Spec.Parent)))
			return f.list
		}
		if way = append(way, at.Spec.Parent); len(way) > maxQueueDepth {
			f.add("spec.parent", "The tree of queues would be more than %d deep.", "队列层级将超过 %d 层。", maxQueueDepth)
			return f.list
		}
	}
	f.shallow(q, byName)
	f.covered(q, byName)
	return f.list
}

// shallow checks that with q where it is now nothing below it is too deep.
func (f *faults) shallow(q *Queue, byName map[string]*Queue) {
	for _, name := range sortedKeys(byName) {
		below := false
		at := byName[name]
		for range maxQueueDepth {
			if at == nil {
				break
			}
			below = below || at == q
			at = byName[at.Spec.Parent]
		}
		if at != nil && below {
			f.add("spec.parent", "With %s the tree of queues would be more than %d deep.", "加上 %s，队列层级将超过 %d 层。", quote(name), maxQueueDepth)
			return
		}
	}
}

// covered checks that what q and the queues above it guarantee is at least what is guaranteed below
// them. A guarantee comes out of that of the nearest queue above which declares one.
func (f *faults) covered(q *Queue, byName map[string]*Queue) {
	for at := q; at != nil; at = byName[at.Spec.Parent] {
		for _, key := range sortedKeys(at.Spec.Guarantee) {
			sum := 0
			for _, name := range sortedKeys(byName) {
				if n, ok := shareOf(byName[name].Spec.Guarantee, key); ok && payer(byName[name], key, byName) == at {
					sum += n
				}
			}
			if have := at.Spec.Guarantee[key]; have > 0 && sum > have {
				f.add(child("spec.guarantee", key), "The queues below %s would be guaranteed %d together, but %s itself only %d.", "%s 下属队列合计保障 %d，而 %s 自身仅保障 %d。", quote(at.Meta.Name), sum, quote(at.Meta.Name), have)
			}
		}
	}
}

// payer is out of whose guarantee q's comes; nil: the cluster's. The tree has no circle above q, or a
// short walk ends there.
func payer(q *Queue, key string, byName map[string]*Queue) *Queue {
	at := byName[q.Spec.Parent]
	for range maxQueueDepth {
		if at == nil {
			return nil
		}
		if n, _ := shareOf(at.Spec.Guarantee, key); n > 0 {
			return at
		}
		at = byName[at.Spec.Parent]
	}
	return nil
}
