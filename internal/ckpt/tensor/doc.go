// Package tensor reads and writes the tree of a rank's state: which values it has, and where in its bytes each blob lies.
//
// Place: layer 4, below ckpt. Promise: a tree that is taken and written anew says the same; what can't be is refused, and nothing in it leads outside of
// the rank's bytes. Enemies: trees without end, shapes that overflow, parts that stick out of their whole.
package tensor
