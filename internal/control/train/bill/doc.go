// Package bill writes down what a training task used: a row of history for every replica, and one for what the task teaches.
//
// Place: layer 4, below control/train, which calls it before the commit that could let a replica's record go. row.go makes rows,
// a pure function; apply.go writes them.
// Promise: rows are keyed by replica and runs by task, so that writing twice is writing once: a crash in between writes the same
// rows again. Enemies: devices that are charged twice, to an environment and to the guest inside it; a write for every turn.
package bill
