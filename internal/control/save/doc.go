// Package save is the will behind checkpoints: it tells the ranks of training tasks which step all of them hold, has steps
// written to the tiers, commits what was written, and knows which checkpoints a task can begin from.
//
// Place: layer 4; only the leader runs it, beside control/train, which asks it where a generation begins (Origins) and how often
// to save (Intervals). Judgement is decide (decide.go and what it calls), a pure function of what was seen, what is remembered and
// the time; observe.go reads, apply.go carries out, controller.go is the loop.
// Promise: a checkpoint that exists is whole, and of the newest generation; a step that every rank holds is overwritten only
// when a newer one is held by all. Enemies: a watermark that falls, a commit by who leads no more, a slow store that holds up
// who trains.
//
// From memory to a tier:
//
//	ranks hold a step ──▶ watermark ──▶ order ──▶ launchers write ──▶ proposal ──▶ commit ──▶ told to all
//	                      (all hold it) (it is due)                   (all wrote it)
//
// Invariants:
//  1. The watermark of a generation only rises, and is a step that every rank holds or held when it was told.
//  2. Nothing of all this is written down by the leader but the checkpoints themselves: what launchers hold, have written and
//     wait for they say again to whoever leads.
//  3. A commit is fenced twice: by the leadership, and by the generation that the store has at that moment.
//  4. Who waits after the end of its ranks is let go as soon as nothing more can come of it.
package save
