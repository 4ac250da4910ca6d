// Package refuse has the words of refusals that all rooms of the server use.
//
// Place: the lowest room of the server; it knows the vocabulary and faults, nothing else.
//
// Promise: what is wrong is told in both languages, with its field; several faults are told at once; what
// strangers wrote is cut before it is repeated.
//
// Enemies: texts of any length and encoding from strangers; a person who is told one mistake at a time.
package refuse
