// Package image keeps image jobs true: placed, started, ended, and told what they found.
//
//	Pending → Initializing → Running → Completed, Failed, Stopped
//	   ↑____________________ Recovering ← a launcher or a node was lost
//
// Place: layer 4; control/work observes and applies, this package decides.
//
// Promise, as invariants:
//  1. What a job could not do is not tried again by itself: a Dockerfile is as wrong the second time. What was lost with its launcher or node
//     is: building and pushing the same twice is as once.
//  2. A job is Completed only with what it found; the registry's word for it is in the status.
//
// Enemies: a job that is said to have pushed and has not, a result that is no result.
package image
