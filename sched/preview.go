package sched

// Preview places a gang without taking anything: where it would stand if it were next. The cluster
// is unchanged on return.
func Preview(c *Cluster, w *Workload) (Assignment, bool) { return place(c, w) }

// ExplainNew says why a gang that is in no queue would wait if it were added now.
func ExplainNew(c *Cluster, q *Queues, w *Workload) Explanation { return explain(c, q, w) }
