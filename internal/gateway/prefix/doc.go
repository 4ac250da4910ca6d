// Package prefix knows which replica has seen the beginning of a question: a hash rolls over its blocks, and each replica
// remembers the newest of them.
//
// Place: layer 4, part of the gateway. Promise: no tokenizer, no body kept, memory bounded by replica; a beginning is found by
// its longest known run of blocks. Enemies: a popular beginning that sends everybody to one replica (the caller weighs what a
// match is worth), a question longer than it is worth to look at.
package prefix
