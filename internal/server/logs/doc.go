// Package logs is the room in which people read what work of any kind prints.
//
// Place: a room of the server, above train, whose reader it uses. Promise: every kind of work is read, followed and cut in the
// same way, and a followed log ends when the work has ended and its replicas have handed everything over. Enemies: a kind
// whose failures nobody can read, a reader that outlives its rights, a slow one that holds up others.
package logs
