// Package work is what controllers of all kinds of work share: how a placed wish becomes replicas, how they
// are followed, and how they are let go.
//
// Place: layer 4; only the leader runs it. A kind brings its Rules: a judgement, and what its replicas run.
// Observing, the one commit a turn, the engine's and the link's verbs, usage, events and the archive are here.
// Steady is a judgement for kinds that are started, kept running and started again as a whole.
//
// Promise: what holds for training holds for every kind. Attempt only grows, and a replica's name contains it. A
// new attempt starts only when every replica of the old ones has ended. A final phase is written with the write
// that deletes the placement, after every replica has handed over and its usage is in history. A crash between any
// two lines is mended by the next turn.
// Enemies: a second start of the same replica, a phase set elsewhere, a controller that knows a kind by name.
package work
