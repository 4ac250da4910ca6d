// Package pace is how the ranks of a launcher get on: sums over their steps, and how their time was spent.
//
// Place: layer 4, beside link, which carries it. Promise: values that can't be are refused before anybody counts with them.
// Enemies: a launcher that says NaN, or a step before the first.
package pace
