// Package hostengine runs replicas as processes of this machine.
//
// Place: layer 3, an adapter of the engine port. Its only partner is the launcher, and they meet
// only in the replica's folder (package record).
//
// Promise: a replica's folder appears whole or not at all, and once; however many servers work on
// the same directory, at most one launcher of a replica lives (it holds the folder's lock); the
// server may die at any line and the next one misses no exit; a replica whose launcher was killed
// has no living process when it is reported as LauncherLost; no zombie stays.
//
// Enemies: pipes to launchers, pids without start time and boot id, polling everything, a judgement
// on a launcher's death without holding its lock.
//
// The simple story. Start makes a folder; a keeper, one goroutine for each replica that is not
// done, looks into it again and again: no launcher and none before → start one; launcher alive →
// wait for its end; launcher dead → by what it left behind, either finish, or start another to hand
// over logs and outputs, or first kill what is left of the tree and write LauncherLost.
// How the code differs: "launcher dead" is only believed by who holds the folder's lock, because
// another server may start a launcher at any moment; and a keeper is woken by the launcher's end
// (pidfd), by Poke, and every few seconds in case a message was lost, never by a scan of all.
package hostengine
