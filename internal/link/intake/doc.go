// Package intake reads one file that a launcher sends in chunks.
//
// Place: layer 4, below link. Promise: exactly the promised bytes, and the word that they still count, or an error, so that whoever
// stores them keeps nothing of it. Enemies: a sender that promises one length and sends another, one that was given up meanwhile.
package intake
