// Package s3 keeps objects in a bucket of an S3 server.
//
// Place: layer 3, an adapter of blob. Promise: as the port says; a request that failed on the way is
// made again, a body that broke off is read on from where it broke, of the same version of the object. A body in which
// nothing moves for 30 seconds has broken off.
//
// Where the credentials may not go, a Notary that has them proves each request of a Store that has none: it signs what it was asked for that may be done, and
// nothing else.
//
// Enemies: keys that end up in a log, bodies of unknown length held in memory as a whole (they go in
// parts of 16 MiB), listings longer than a page.
package s3
