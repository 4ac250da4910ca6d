// Package figure makes the figures of a training task: what failures cost, how fast it trains, what it uses, and which ranks the
// others wait for.
//
// Place: layer 4, below control/train, which writes them down with its other judgement. Pure: what launchers said and the status
// before and after a turn in, figures and events out.
// Promise: what is not known is absent, never 0 or 100 %; steps made again are lost steps; a figure costs no write of its own
// that something else would not have cost. Enemies: a write for every step, a rate of half of the ranks.
package figure
