// Package link is the wire between a launcher and the server: one gRPC stream that the launcher
// dials, and a second connection for bulk (archives, outputs).
//
// Place: layer 4; control and the server use the Hub, launch uses the Client.
// Promise: a launcher outlives any server: it dials again for ever and repeats what it has to say, so that no fact and no log line
// is lost or doubled; an order of a leader whose epoch is lower than one already seen is never obeyed; both sides notice a dead
// peer within about five seconds (with 16,384 launchers a process that stands still within 21 s, after a change of leader within
// 30 s); every queue and every message is bounded; a slow disk never delays a heartbeat.
// Enemies: trust in a field nobody checked, facts that exist only in a message, paths made from
// user text.
//
// The simple story: the launcher says Hello, the hub answers Welcome with its epoch and the log
// offset to go on from. Then both sides repeat small facts (state, usage, acknowledgements, beats),
// each of which only matters in its newest form; so neither side queues messages, it keeps the
// newest facts and a wake-up. Only the log is a sequence, and it lies in the launcher's spool file:
// after a reconnect it is simply read again from the offset the hub names.
//
// With several servers a launcher attaches to any of them. A follower (Peers, uplink) repeats the
// newest facts of its launchers to the leader's hub (follower) in the same manner, and passes orders
// on; to the leader the launchers of every server look alike. Decision 0009.
package link

//go:generate protoc --go_out=. --go_opt=module=github.com/fermi-cluster/fermi/internal/link --go-grpc_out=. --go-grpc_opt=module=github.com/fermi-cluster/fermi/internal/link link.proto
