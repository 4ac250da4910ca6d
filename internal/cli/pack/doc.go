// Package pack makes the archive of a folder that travels with a task, and knows folders that it has packed before.
//
// Place: layer 5, below cli. Promise: the same files give the same bytes; what rules leave out, links out of the folder, virtual environments and
// the keys of a server stay at home; a folder in which nothing changed is not packed again. Enemies: files that change while they are read, a
// folder that somebody meant to leave out.
package pack
