// Package order ranks who waits inside one queue.
//
// Place: layer 2, under sched; it knows ranks, not workloads. Promise: a total order; the best of
// n classes is found in O(log n), and those that were refused cost nothing until they are asked
// for again.
//
// Enemies: work per turn that grows with the backlog; a large task that small ones overtake for
// ever; an order that turns on noise in the estimates.
//
// The simple story: priority comes first. Within one priority it is value density, most value for
// least machine time: the level is the time to be spent for one end (predict.Estimate.Index) × devices in steps of two,
// so that estimates need only be roughly right, and equals go by age. Ageing is a promise instead of a
// formula: who has waited for the policy's longest wait is overdue and goes before all others of its
// priority, oldest first, as long as the queue can bear that.
package order
