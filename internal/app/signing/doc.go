// Package signing says which requests to the shared store a replica may make that has no credentials for it.
//
// Place: layer 6, part of the assembly: it ties the desk of link/signature to the store and to the bucket. Promise: while its attempt runs, a replica reads and writes
// what its own task has there, reads the checkpoint of another task that it was told to begin from, and nothing else. Enemies: a replica that names another's
// object, one of an attempt that is over.
package signing
