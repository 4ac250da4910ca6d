// Package deal divides a gang over zones that may each have so many of its replicas.
//
// Place: layer 2, under sched, which knows the zones and places what was dealt. Promise: whatever can be dealt within the bounds is, the
// same way each time. Enemies: zones of equal room, room that turns out to be less than it looked.
package deal
