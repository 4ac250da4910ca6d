// Package placement carries out what sched decides: it feeds the model from the store and writes
// one Placement per gang.
//
// Place: layer 4; only the leader runs it. Promise: the model follows the store incrementally; a
// decision becomes true only by one fenced write that also checks that the task is unchanged; a
// write that failed is undone in the model. No lock is held around I/O.
// Enemies: two leaders placing, a model that drifts from the store, O(all) work per event.
// A turn decides on orders under the lock (decide.go); each is written without it (apply.go), and the model, which has what was
// decided from then on, is told what became of the write (settle). Desk answers questions beside that.
//
// Invariants:
//  1. A task waits in the model exactly while it is Pending, wanted, and has no Placement.
//  2. A gang is held in the model exactly while its Placement exists or is being written.
//  3. A second place is held for a gang exactly while its Placement names it in Evict.To, is being
//     written, or may have been: then what is true is found out first.
//  4. Tasks inside others (inside.go) are not in the planner's model: each environment is lent to one of
//     them at a time, by the Placement that names it.
package placement
