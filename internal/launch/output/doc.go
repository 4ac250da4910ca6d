// Package output uploads the files that a replica leaves in $FERMI_OUTPUT and in its logs folder.
//
// Place: layer 4, below the launcher. The steward opens the files, with the rights of who made them.
// Promise: a file is stored as it was at one moment, or not at all, and what was left out is named.
// Enemies: files that change while they are read, links that lead elsewhere, a server that is away.
package output
