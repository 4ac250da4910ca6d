// Package interval says how often a task should save, from what saves and failures cost it.
//
// Place: layer 4, below control/save, which measures. It is arithmetic: no clock, no I/O. Promise: no other interval within the bounds loses less time by the
// costs that were given, and the reason is said in words. Enemies: costs that are zero or infinite, a rate that is guessed from one failure.
package interval
