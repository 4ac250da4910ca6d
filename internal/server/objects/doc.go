// Package objects serves the plain verbs of all kinds: list, get, watch, create, update, delete.
//
// Place: over truth, access and streams; kinds give it their rows.
//
// Promise: it knows no kind by name: what differs is in the row of hooks that each kind has; lists join what lives
// and what is archived; what was acknowledged was committed; nothing that only the server sets is taken from
// users.
//
// Enemies: lists over a million finished tasks; two who change one object at once; a kind without a row.
package objects
