// Package sqlstore keeps history in SQL: SQLite, one file.
//
// Place: layer 3, the adapter of history. All SQL of SQLite is here; PostgreSQL, which has
// indexes for what words.go and zone.go do by hand, is pgstore's.
//
// Promise: a write that returned nil survives kill -9 and power loss (WAL, synchronous=FULL).
// Concurrent writers share one transaction and one fsync: each gets its own outcome. Two
// processes may share the file. Lists over a million archived rows take some tens of
// milliseconds in any order with any filter; see list.go for how.
//
// Enemies: scans of everything, a write that blocks all others, a schema from the future, a
// damaged file taken for an empty one.
package sqlstore
