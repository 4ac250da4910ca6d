// Package launch is `fermi launch`: the launcher around one replica. It waits for the leader's go,
// starts the user's process, keeps its output and its end, and hands everything over.
//
// Place: layer 4, beside the user's process; it speaks to the server only over link and to the
// engine only by records in the replica's folder.
// Promise: it starts at most one user process, and only after a go that is on disk; it survives the
// server; it leaves no process of the tree and no zombie behind; what the process printed and wrote
// to $FERMI_OUTPUT is handed over also when the process failed; the network never slows the
// process down.
// Enemies: a second start, an exit that nobody saw, a pipe held by an escaped grandchild, a full
// disk that kills the user's work.
//
// The order of a life, each step on disk before the next begins:
//
//	lock → launcher.json → (hello, code unpacked meanwhile) → go.json → process → start.json
//	→ tree ended, pipes drained → exit.json → logs and outputs durable at a server → done.json
package launch
