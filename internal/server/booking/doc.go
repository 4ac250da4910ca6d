// Package booking is the room of bookings: nodes that are a project's, or nobody's, from one time to another.
//
// Place: a room of the server, above objects. Promise: no two projects are promised the same node at the same time. Enemies: two operators who write
// at once, a name that nobody has.
package booking
