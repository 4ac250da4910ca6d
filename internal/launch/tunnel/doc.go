// Package tunnel carries bytes between a server and what listens in a replica's network.
//
// Place: layer 4, in the launcher, beside its terminals: a server rings and says where to, Set dials there as the replica's own processes
// would, and both sides speak frames until both have ended.
// Promise: a connection is made from the replica's network namespace and from nowhere else; a side that reads slowly holds up its own connection
// alone, with one chunk in memory each way; the end of one direction is told, and the other goes on; connections end with the replica's processes.
// Enemies: a dial that leaves the wall, a connection that nobody ends, memory without bound.
package tunnel
