// Package process starts the ranks of a generation and knows what became of them: their pipes, their ends, the tree of what they
// started, and the standby that the next generation is forked from.
//
// Place: layer 4, below the launcher, on the node beside the user's processes.
// Promise: a process is signalled only after its start time was compared; every pipe is read to its end; each end is seen once;
// whoever hears a process is joined when its group or its standby is let go.
// Enemies: pids that are used again, a pipe held by an escaped grandchild, orphans in a session of their own, a standby that lies.
package process
