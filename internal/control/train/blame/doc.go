// Package blame finds who is at fault when replicas or ranks of a training task fail or hang, why, and whether the place is.
//
// Place: layer 4, below control/train, which decides what to do about it. Pure: what launchers said and the time in, a failure
// with its evidence out.
// Promise: the first error is named, not those that died of it; a rank that the others wait for is found by their votes.
// Enemies: a victim that is taken for the culprit, a slow start that is taken for a hang.
package blame
