// Package cards drills faults of devices in the demo: each is closed, its task saves and moves, and it returns or is kept out.
//
// Place: test only; make e2e-cards runs it. Promise: a seed repeats its drills. Enemies: a drill that waits for a time.
package cards
