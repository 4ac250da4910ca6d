// Package roundtrip has the words of the command line about how far zones are from each other: `fermi zone matrix`, `fermi zone show`, and what a
// task that runs in several zones found.
//
// Place: layer 5, on call. Promise: what was measured stands beside what is declared, with when and between whom;
// what was not measured is said to be so. Enemies: a figure of a network that was never there.
package roundtrip
