// Package stream is a long answer, and the guard of long downloads and uploads.
//
// Place: over door: it looks at the caller again while bytes flow.
//
// Promise: a stream ends within seconds of its token, of a lost project, or of the server; what was written
// reaches a client that reads.
//
// Enemies: readers that stop reading; callers who were put out; a server that closes.
package stream
