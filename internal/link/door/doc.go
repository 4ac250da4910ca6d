// Package door lets many launchers in at once, and few of them speak first.
//
// Place: layer 4, below link. Promise: whoever comes is taken in, and has a turn or is turned away in time. Enemies: a storm of
// handshakes that keeps the server from staying the leader.
package door
