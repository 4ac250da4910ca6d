// Package work is the room of kinds of work beside training tasks: what all work has at the door, from the queue to the
// archive.
//
// Place: a room of the server, above train, whose gate it uses. Promise: a kind says in a Row what is its own, and nothing
// else of the server knows it by name. Enemies: a second way through the gate, a rule that one kind escapes.
package work
