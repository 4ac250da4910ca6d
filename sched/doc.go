// Package sched is the planner: a cluster model and a time in, decisions and explanations out.
//
// Place: layer 2, a pure library. It imports only the vocabulary: no clock, no context, no
// logger, no goroutine, no I/O, no map order, no randomness. control feeds it the live cluster,
// sim feeds it traces; both run this same code.
//
// Promise: a gang is placed wholly or not at all; no device is given twice; the same input gives
// the same output, byte for byte; applying and undoing cost O(change), never O(cluster).
//
// Enemies: work per event that grows with the backlog, answers that depend on map order, a
// refusal without a reason.
//
// The simple story: Cluster holds nodes and who stands on them. Queues holds who waits, grouped
// into classes of equal wishes, because what was refused to one is refused to all behind it until
// something is given back. Plan serves the queue with the best claim (sched/fair), in it the class
// with the highest priority and the least left to do (sched/order, with times from sched/predict),
// and places its head; a gang that finds no room gets a reservation, or others are asked to go.
// place keeps a gang as low in the topology as there is room, in the tightest hole that takes it;
// sched/pack says which of several nodes loses least by it. Explain says, for one waiting workload,
// which single reason holds it back.
//
// Where the code differs from the story, for speed: nobody scans the nodes. They are kept in
// topology order (cluster_tree.go), so a rack or zone is a range, and for each distinct wish of a
// replica an index (index.go) knows how many each node and range takes and which node is best. It
// is made when the wish is first seen and follows a log of nodes that changed.
package sched
