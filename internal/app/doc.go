// Package app builds the programs: it opens the parts, hands them to each other, and runs them as `fermi up`, `fermi server` and `fermi launch`.
//
// Place: layer 6, imported by cmd/fermi only. Promise: parts start in the order they need each
// other and end in the reverse one; whatever dies ends the process with a sentence a person can
// act on; a second start finds everything as it was left, however it was left.
// Enemies: logic of its own.
//
// Who runs what: every server has the store's cache, the API and the hub with its launchers. Only
// the leader has an engine and controllers: they live inside lead, and end with the leadership.
// Followers forward their launchers to it (peers.go).
package app
