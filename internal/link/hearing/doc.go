// Package hearing is how often the two ends of a link speak, and how long one of them has said nothing.
//
// Place: layer 4, below link. Promise: silence is counted only while this server listens, so that a paused server, a new leader or a
// clock that was set never makes a launcher look dead. Enemies: wall clocks, a word that is not due yet.
package hearing
