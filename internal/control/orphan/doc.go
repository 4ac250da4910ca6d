// Package orphan ends what belongs to nobody: replicas and placements whose owner is no longer in the store.
//
// Place: layer 4; only the leader runs it, for all kinds of work. Owners end their own; what is left here comes from
// a store that was restored from a backup, or from an owner that was deleted by hand.
// Promise: nothing is ended whose owner is there at a revision that is as new as this leadership, and nothing of a kind that
// the table does not have: that is a newer program's. A place is free only after the processes on it have ended.
// Enemies: a sweep that knows one kind and kills the others, a leader that slept.
package orphan
