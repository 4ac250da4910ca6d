// Package array keeps task arrays true: as many of their tasks exist at once as they say, until every index has had one.
//
//	Running ─┬─ every index has ended, all well ──> Completed
//	         ├─ every index has ended, one failed ─> Failed
//	         └─ stopped, and none runs any more ──> Stopped
//
// Place: layer 4; only the leader runs it. The tasks are training tasks like all others: train starts them, placement finds each a
// place, people see and stop each by itself. This package makes them, counts how they end, and stops or removes them together.
//
// Promise:
//
//  1. An index has one task, once: the tasks are made in the same commit that counts them as begun.
//  2. At most spec.atOnce of them wait or run, at most Ahead wait in the queue: the others wait here, as numbers.
//  3. How a task ended is read from the task, or from history if it was archived meanwhile; one that is nowhere was deleted and
//     counts as stopped.
//
// Enemies: a crash between two writes, a task of somebody else that has a name of ours, ten thousand objects where twenty do.
package array
