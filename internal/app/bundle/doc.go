// Package bundle is the file of a backup: a tar whose every entry is verified, and whose end is known.
//
// Place: layer 6, below the assembly, which says what goes into a backup and what becomes of it.
// Promise: Read ends without an error only where every byte of every entry is the one that was written, in the order in
// which it was written, and none is missing; otherwise the error names the entry. It needs no second look at the file:
// a pipe will do.
// Enemies: flipped bytes, a file cut anywhere, also between two entries, entries left out or changed for others.
//
// Behind each thousand entries stands an entry sums/N with a line (hash, size, name) for each of them, and the last
// entry is end.json with their number and the hash of all those lines. Backups of formats before 4 have neither.
package bundle
