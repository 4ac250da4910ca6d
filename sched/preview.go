package sched

import "time"

// Preview places a gang without taking anything: where it would stand if it were next. The cluster
// is unchanged on return.
func Preview(c *Cluster, w *Workload) (Assignment, bool) { return place(c, w) }

// Moving is how long it takes to bring what a gang reads to a zone.
func Moving(c *Cluster, w *Workload, zone string) time.Duration { return c.zones.moving(w, zone) }

// ExplainNew says why a gang that is in no queue would wait if it were added now; no priority above top is advised.
func ExplainNew(c *Cluster, q *Queues, w *Workload, top int) Explanation {
	x := newExplainer(q.now, c, q, w)
	x.top = top
	return x.explain(x.entry(w))
}
