// Package message has what launchers and the leader tell each other about ranks: as values that both sides work with, as frames of the wire,
// and the checks that each side makes before it believes the other.
//
// Place: layer 4, below link, which carries the frames. Promise: there and back is the same value; what can't be is refused, whoever says it, and
// nothing is without a bound. Enemies: a launcher that lies, numbers that are NaN, a text that never ends.
package message
