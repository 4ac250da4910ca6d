// Package safe keeps a few small values that all servers of a cluster must have alike and that are no objects: their keys, sealed, and the last uid
// that a project got.
//
// Place: layer 3, an adapter of etcd, beside the store. Promise: a value is replaced only by who read it as it is; what Write and Next return is
// durable. Enemies: two servers that change a value at once, a number that is given twice.
package safe
