// Package tracker follows all tasks through one feed: how many wait and run in each queue, and who wants to hear
// that a task moved.
//
// Place: beside the handlers of the server, over truth.
//
// Promise: a burst of submits does not run past the limit of a queue; a look costs no walk over all tasks.
//
// Enemies: a feed that is behind or breaks; tasks that come and go unseen.
package tracker
