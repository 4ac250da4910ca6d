// Package fsm holds tables of allowed moves.
//
// Place: foundation. Promise: a phase moves only along a declared edge; a test can print the
// table. Enemies: a phase set from many places.
package fsm

import "slices"

// Table says which phases follow which.
type Table[P comparable] map[P][]P

// Allows says whether a move is declared. Staying is always allowed.
func (t Table[P]) Allows(from, to P) bool { return from == to || slices.Contains(t[from], to) }

// Final says that nothing follows.
func (t Table[P]) Final(p P) bool { return len(t[p]) == 0 }
