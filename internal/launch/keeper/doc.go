// Package keeper keeps what the ranks of a replica save: in their memory, in that of a peer, in the tiers for checkpoints, and in the folder
// that a script saves to itself; and it brings the state that a generation begins from to the ranks that start.
//
// Place: layer 4, below the launcher; it uses rankset for what ranks hold, shm for their slots, ckpt for tiers.
// Promise: what ranks begin from was read whole and is what the leader named; a damaged copy is dropped, not used; persisting never holds up a rank.
// Enemies: a node that dies in the middle of a copy, a bit that flips in memory, a tier that is away, a folder that changes while it is read.
package keeper
