// Package store keeps the typed objects that count, in etcd, embedded or outside.
//
// Place: layer 3; nobody else speaks etcd. Promise: a write that returned nil is on disk; reads
// come from a watch cache fed by one watch over the whole prefix and never queue behind writes;
// a read that carries a revision sees at least that; Contact knows when the cache may be old; a fenced write from a former leader changes
// nothing. Enemies: half-applied changes, objects changed in place, heartbeats in etcd.
package store
