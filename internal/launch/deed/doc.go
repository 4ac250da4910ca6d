// Package deed is what is done to files with the rights of a tenant: small requests about paths that
// the tenant named or can change, each with one bounded answer and the descriptors it asked for.
//
// Place: layer 4, part of launch, below steward, which has deeds done. Standard library alone, and
// few packages of it: the process that serves deeds begins in this package's init, before the rest of
// the binary is set up (see inside).
// Promise: whoever calls Do does it; nothing here raises or lowers rights. Opening never waits for the
// other end of a pipe and gives regular files alone; no answer is longer than its bound.
// Enemies: pipes, devices and links in the place of files, folders without end, names that are no text.
//
// The simple story: a process that has become the tenant reads a request, does it, answers. Where there
// is no tenant (the launcher is its owner's) the launcher calls Do itself: one code for both.
package deed
