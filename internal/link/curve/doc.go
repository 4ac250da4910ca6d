// Package curve is the way of metric points from a launcher to history: the launcher's Source gathers them and hands them over
// in batches, the server's Desk commits and answers.
//
// Place: layer 4, beside link, on whose connection and tokens it rides.
// Promise: whoever adds a point never waits; what a server answered for is committed, and what it did not answer for is sent
// again with the same number, so that it is there once; when there is no server for long the oldest points go, and are
// counted; how often batches come is the server's word, so that thousands of launchers are not too many.
// Enemies: a queue without an end, a point that is there twice, names that a program makes up without end.
package curve
