// Package pgstore keeps history in PostgreSQL, for several servers that share one past.
//
// Place: layer 3, an adapter of history beside sqlstore; it knows nothing of the other.
//
// Promise: a write that returned nil is committed. A write is one message to the database and
// commits there without another word from us, so that a server that is paused in the middle holds
// nobody up; only folding batches of points reads first. Every write has a key, and is tried again when
// the connection is lost in the middle. Sequence numbers become visible in their order:
// who follows events by Seq misses none. Several servers may start at once on an empty database.
//
// Enemies: locks held across round trips, order that depends on the database's language (every text
// is compared by bytes), passwords in messages, a schema from the future.
package pgstore
