// Package fair shares a cluster among a tree of queues.
//
// Place: layer 2, under sched; it knows queues and amounts, neither nodes nor workloads. An amount
// is a slice of counts, one per resource, in an order its caller fixes.
//
// Promise: what is charged to a queue is charged once to it and to each of its ancestors, and a
// refund takes away exactly that, so usage is the sum of what runs, always. Charge, refund and the
// limit check cost O(depth); the next queue to serve O(depth × children). A configuration is taken
// whole or refused with the queue and the rule it breaks.
//
// Enemies: quota leaked by a changed or deleted queue, counted twice by a retry, a burst that takes
// everything because an average has not seen it yet, a guarantee nobody can get back.
//
// The simple story: siblings are served by dominant share (the largest fraction of any resource
// they use) over weight, those below their guarantee first. The share is what a queue uses now plus
// what it used lately, the past fading by half every half-life: who was idle goes ahead of who was
// not. Nothing stops a queue from using more than its guarantee while others are idle; who wants
// its guarantee back may reclaim it from whoever is above their own.
package fair
