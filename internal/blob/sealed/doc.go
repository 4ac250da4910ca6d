// Package sealed keeps objects whose bytes are verified when they are read.
//
// Place: layer 3, on the port blob. Beside the object KEY stands a small one below sums/ with the hash of each of its
// blocks; the object itself stays as it is, so that everything else reads it as before.
// Promise: Open gives no byte that was not put there: a flipped, cut or swapped file ends with fault Internal Damaged,
// which names the object and where it is bad, and a range costs no more than its own blocks. An object from before
// there were sums is read as it is.
// Enemies: a disk that turns bits; a crash between the object and its sums: the sums are written first and hold the old
// content's beside the new one's until the object is in its place, so that at any moment one of the two fits.
package sealed
