// Package silence judges launchers that say nothing: who is only told of, who is replaced at once, and who is lost.
//
// Place: layer 4, below control/train, which carries the verdict out. Pure: a gang in, a verdict out; for how long a launcher has been
// silent is counted by the link, which counts no time in which nobody listened.
// Promise: who is silent needs to testify to nothing; while the others' steps go on nobody is given up; a replica that was given up
// keeps its devices closed. Enemies: a paused server that takes everybody for dead, a wait without an end for a frozen machine.
//
//	silent for 10 s   it is told, whatever the others do
//	the gang stands still, and a spare or a peer's copy waits: it is replaced at once
//	silent for 30 s   the gang stands still, or nobody can tell: it is lost, and the others go on without it
//	the task ends     who does not hear that is lost after 30 s as well
package silence
