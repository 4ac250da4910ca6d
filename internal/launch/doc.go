// Package launch is `fermi launch`: the launcher around one replica. It waits for the leader's go,
// starts the user's processes, the ranks, keeps their output and their end, and hands everything over.
//
// Place: layer 4, beside the user's process; it speaks to the server only over link and to the
// engine only by records in the replica's folder.
// Promise: it starts at most one user process for each rank and generation, and only after a go that
// is on disk; a failed rank ends its whole generation at once; it survives the server; it leaves no process of the tree and no zombie behind; what the process printed and wrote
// to $FERMI_OUTPUT is handed over also when the process failed; the network never slows the
// process down.
// Enemies: a second start, an exit that nobody saw, a pipe held by an escaped grandchild, a full
// disk that kills the user's work.
//
// The order of a life, each step on disk before the next begins:
//
//	lock → launcher.json → (hello, code unpacked meanwhile) → go.json → ranks → start.json
//	→ tree ended, pipes drained (→ go.json of the next generation → ranks → …) → exit.json → logs and outputs durable at a server → done.json
//
// Who owns what: launcher is one life (records, link, signals, hand-over); commands are the leader's words; runner runs one generation
// after the other; warden is the loop around a living tree, and witness looks at ranks that make no progress. Below them, each with its own
// state and lock:
//
//	setup    what processes find: folders, wall, network, image, code, secrets, environment
//	process  starting, pipes, reaping, the tree, the standby
//	rankset  what ranks say and hold, and what the leader is told of it (word: their words, shm: their memory)
//	keeper   what ranks save: at peers, in tiers, in the folder of a script; and bringing it back
//	inspect  looking at the node before the start
//	spool    the log on disk; output: uploads; port: reserved ports
//	inside, steward, deed, chore, rootfs, unpack, gitcode    touching what a tenant named, as that tenant
//
// Ranks speak to their launcher over $FERMI_SOCKET (word), and keep what they save in $FERMI_SHM,
// which outlives them: docs/reference/ranks.md. Rank 0 hosts the store of its framework on a port
// that the launcher reserved for this generation. The next step is a store hosted by the lead's
// launcher, so that no rank ever meets a refused connect, which torch tries again only after a second.
package launch
