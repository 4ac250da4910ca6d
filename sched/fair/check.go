package fair

import (
	api "github.com/fermi-cluster/fermi/api/v1"
)

// Problem is which rule a configuration breaks.
type Problem string

// The problems.
const (
	NoName         Problem = "NoName"
	Twice          Problem = "Twice"
	NegativeWeight Problem = "NegativeWeight"
	NegativeAmount Problem = "NegativeAmount" // of a guarantee
	UnknownParent  Problem = "UnknownParent"
	Cycle          Problem = "Cycle"
	BelowGuarantee Problem = "BelowGuarantee" // the limit is below the queue's own guarantee
	OverParent     Problem = "OverParent"     // one guarantee is larger than the parent's
	OverCommitted  Problem = "OverCommitted"  // guarantees of siblings together are larger than what there is
	TooDeep        Problem = "TooDeep"
)

// MaxDepth bounds the tree.
const MaxDepth = 16

// Error is why a configuration was refused.
type Error struct {
	Queue    string // the queue to change
	Problem  Problem
	Other    string // the parent, where it matters
	Resource int    // which amount
	Got      int64
	Bound    int64
}

// Error is the English text.
func (e *Error) Error() string { return e.Text().EN }

// Text says it to people.
func (e *Error) Text() api.Text {
	switch e.Problem {
	case NoName:
		return api.T("A queue has no name.", "有队列没有名称。")
	case Twice:
		return api.T("Queue %s is given twice.", "队列 %s 重复。", e.Queue)
	case NegativeWeight:
		return api.T("Queue %s has the negative weight %d.", "队列 %s 的权重 %d 为负数。", e.Queue, e.Got)
	case NegativeAmount:
		return api.T("Queue %s guarantees the negative amount %d.", "队列 %s 的保障额 %d 为负数。", e.Queue, e.Got)
	case UnknownParent:
		return api.T("Queue %s is below %s, which does not exist.", "队列 %s 的上级 %s 不存在。", e.Queue, e.Other)
	case Cycle:
		return api.T("Queue %s is below itself.", "队列 %s 的上级关系成环。", e.Queue)
	case BelowGuarantee:
		return api.T("Queue %s is limited to %d, below its guarantee of %d.", "队列 %s 的上限 %d 低于其保障额 %d。", e.Queue, e.Got, e.Bound)
	case OverParent:
		return api.T("Queue %s guarantees %d; its parent %s has only %d.", "队列 %s 的保障额 %d 超过上级 %s 的 %d。", e.Queue, e.Got, e.Other, e.Bound)
	case TooDeep:
		return api.T("Queue %s is more than %d levels deep.", "队列 %s 的层级超过 %d。", e.Queue, e.Bound)
	}
	if e.Other == "" {
		return api.T("With queue %s the guarantees add up to %d; the cluster has %d.", "加上队列 %s 后保障额合计 %d，而集群只有 %d。", e.Queue, e.Got, e.Bound)
	}
	return api.T("With queue %s the guarantees below %s add up to %d; it has %d.", "加上队列 %s 后 %s 之下的保障额合计 %d，而其只有 %d。", e.Queue, e.Other, e.Got, e.Bound)
}

// Check refuses a configuration that makes no sense; total nil leaves out what the cluster has.
func Check(queues []Queue, total []int64) error {
	byName := map[string]*Queue{}
	for i := range queues {
		q := &queues[i]
		if q.Name == "" {
			return &Error{Problem: NoName}
		}
		if byName[q.Name] != nil {
			return &Error{Queue: q.Name, Problem: Twice}
		}
		byName[q.Name] = q
	}
	for i := range queues {
		if err := checkOne(&queues[i], byName); err != nil {
			return err
		}
	}
	return checkSums(queues, byName, total)
}

func checkOne(q *Queue, byName map[string]*Queue) error {
	if q.Weight < 0 {
		return &Error{Queue: q.Name, Problem: NegativeWeight, Got: q.Weight}
	}
	for i, g := range q.Guarantee {
		if g < 0 {
			return &Error{Queue: q.Name, Problem: NegativeAmount, Resource: i, Got: g}
		}
		if i < len(q.Limit) && q.Limit[i] >= 0 && q.Limit[i] < g {
			return &Error{Queue: q.Name, Problem: BelowGuarantee, Resource: i, Got: q.Limit[i], Bound: g}
		}
	}
	depth := 0
	for at := q; at.Parent != ""; depth++ {
		parent := byName[at.Parent]
		switch {
		case parent == nil:
			return &Error{Queue: at.Name, Problem: UnknownParent, Other: at.Parent}
		case parent == q, depth > len(byName):
			return &Error{Queue: q.Name, Problem: Cycle}
		}
		at = parent
	}
	if depth >= MaxDepth {
		return &Error{Queue: q.Name, Problem: TooDeep, Bound: MaxDepth}
	}
	return nil
}

// checkSums holds guarantees against the nearest ancestor that declares one, or the cluster.
func checkSums(queues []Queue, byName map[string]*Queue, total []int64) error {
	type at struct {
		owner    string
		resource int
	}
	sums := map[at]int64{}
	for i := range queues {
		q := &queues[i]
		for r, g := range q.Guarantee {
			if g == 0 {
				continue
			}
			owner, bound, ok := payer(q, byName, total, r)
			if !ok {
				continue
			}
			if owner != "" && g > bound {
				return &Error{Queue: q.Name, Problem: OverParent, Other: owner, Resource: r, Got: g, Bound: bound}
			}
			sum := sums[at{owner, r}]
			if sum > bound-min(g, bound) || g > bound {
				return &Error{Queue: q.Name, Problem: OverCommitted, Other: owner, Resource: r, Got: sum + g, Bound: bound}
			}
			sums[at{owner, r}] = sum + g
		}
	}
	return nil
}

// payer is out of whose guarantee q's comes.
func payer(q *Queue, byName map[string]*Queue, total []int64, r int) (owner string, bound int64, ok bool) {
	for name := q.Parent; name != ""; name = byName[name].Parent {
		if g := get(byName[name].Guarantee, r); g > 0 {
			return name, g, true
		}
	}
	return "", get(total, r), total != nil
}
