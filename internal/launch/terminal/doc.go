// Package terminal has the shells and commands that people run in a replica, beside its own processes.
//
// Place: layer 4, in the launcher. A server rings, Set answers (link/talk), and a session speaks frames with whoever is attached to it.
// Promise: a shell belongs to the replica, not to a connection: it goes on when the client or the server is gone, and who comes back with
// its session's id gets what was printed meanwhile, as far as the ring reaches. What a client that is slow has not taken yet holds up its
// own shell alone. A shell is behind the same wall as the replica's processes, and ends with them at the latest.
// Enemies: a session that nobody ends, output without bound, a shell on the wrong side of the wall.
package terminal
