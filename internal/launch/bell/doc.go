// Package bell wakes who waits on a channel that holds one: ringing twice wakes once, and nobody ever waits to ring.
//
// Place: layer 4, below the launcher. Promise: a ring is never lost. Enemies: a bell rope that blocks.
package bell
