// Package recovery has the words of the command line about failures of a task, the way back from them, and what its time was spent with.
//
// Place: layer 5, below cli, which prints them. Promise: what is not known is said to be so, never shown as 0. Enemies: a mean over
// recoveries that nobody saw the end of.
package recovery
