// Package booking is the kind Booking: nodes that are somebody's, or nobody's, from one time to another.
//
// Place: layer 1, over the vocabulary. Promise: operators write it, nobody else; what it means for work is judged in sched/booked, and shown by
// whoever shows it. Enemies: two projects that were promised the same nodes, a maintenance that nobody's work knows of.
package booking
