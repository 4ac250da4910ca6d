// Package zone derives the state of availability zones.
//
// Place: layer 4; only the leader runs it. Promise: status.health follows the zone's nodes, its
// measured links and the operator's hand, with one machine-readable reason; unchanged facts cause no
// write. Enemies: two writers of one field, a zone that flaps because a far one is slow.
//
//	by hand (with reason) ─▶ as set
//	no nodes · engine silent or in trouble · < 90 % ready · most links slower than declared ─▶ degraded
//	otherwise ─▶ healthy
//
// Invariants:
//  1. Health, reason, message and counts are written here only. Measured is written by operators that report it, and here from what
//     the preflights of tasks, and agents, found: seldom (a pair at most once a quarter of an hour, sooner only where it is another class now,
//     and once in six hours where an agent found the same), and never from nodes of one machine.
//  2. What an operator set by hand is never overruled.
package zone
