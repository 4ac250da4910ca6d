// Package word is what ranks and their launcher say to each other over $FERMI_SOCKET: JSON lines, each one object with one key.
//
// Place: layer 4, below the launcher; it knows no process and no connection.
// Promise: a word that was parsed is within its bounds; one that was not understood changes nothing.
// Enemies: a rank that says anything it likes.
package word
