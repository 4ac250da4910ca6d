// Package probe measures how far the zones are from each other.
//
// Place: layer 4; every server that knows its zone runs one, leading or not. Promise: what is written
// is p50 and p99 of real round trips over the servers' own authenticated connections, from a bounded
// window, at most once a minute, and only when it has changed by more than a tenth or has grown old.
// Enemies: a write for every ping, a handshake counted as distance, one slow answer that looks like a
// far zone, a server that is gone and still counts.
//
//	ping every other server ─▶ window by zone ─▶ p50, p99 ─▶ Zone.status.measured
//
// Invariants:
//  1. Only the measured part of the own zone's status is written, of zones that exist.
//  2. A server that says no zone, or ours, is not measured.
package probe
