// Package gang is who takes part in a training task at one moment: its members, the ranks they have, who is about to join,
// who stands by and who is given up.
//
// Place: layer 4, below the controllers of training tasks and of their checkpoints, which both judge by it. observe.go reads;
// everything else is a function of what was read.
// Promise: the same task, placement and launchers always give the same table of ranks, whoever leads. Enemies: two
// controllers that disagree about who is a member; a judgement that changes what it looks at.
//
//	Gang      everybody there shall be, and everybody there still is
//	Unit      the members that start again together, with their attempt, generation and rendezvous
//	Members   a list of members, and what can be asked of it
//	Member    one replica: where it is, which ranks it has, what its launcher said last
//	Terms     what task and placement say of all of them
package gang
