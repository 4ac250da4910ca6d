// Package train has the training task: its row of hooks, its admission, its verbs, and what it leaves behind.
//
// Place: over objects, cluster, tenant and archive; asks the leader's memory through Live.
//
// Promise: what could never start is refused with the reason; all that a task names and is not there is told at
// once; logs, outputs and checkpoints are handed out whole or cut off.
//
// Enemies: bursts of submits; tasks of others that a reason would name; bytes made by users; callers who lose
// their rights while they read.
package train
