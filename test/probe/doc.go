// Command probe is a program for tasks of the end-to-end tests: it uses an outside service with the
// usual client, which finds its credentials as any user's program does.
//
// Place: test only. Promise: it knows no credential itself; without one it fails. Enemies: a test
// that passes because something else let it in.
//
//	probe pull IMAGE...   prints the digest of each image's manifest
//	probe store BUCKET    writes an object and reads it back
package main
