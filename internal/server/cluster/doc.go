// Package cluster has the kinds that work stands on: zones, nodes, queues, placements, and how much of them is
// free.
//
// Place: rows of hooks for objects, and the verbs of operators.
//
// Promise: queues stay a tree; the price that a zone had is written down before another one replaces it; who uses
// a device is said to nobody.
//
// Enemies: two changes of queues that only together make no sense; a clock that goes back.
package cluster
