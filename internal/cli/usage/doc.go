// Package usage says what a command line takes and what is wrong with one.
//
// Place: layer 5, below all commands. Promise: all mistakes are said at once, each with the argument that it is about;
// an unknown word or flag gets a hint. Enemies: a refusal that does not say what would be right.
package usage
