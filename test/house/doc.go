// Package house has no code of its own: its tests hold the house together. They read every Go
// file of the repository and fail when a package imports up or sideways, has no doc comment,
// judges by the wall clock, or grows too long.
//
// Place: beside the house, not in it. Promise: the layer table of the style page is what the code
// does. Enemies: one small exception, then another.
package house
