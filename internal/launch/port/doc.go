// Package port reserves the TCP ports that ranks are found at, before they run.
//
// Place: layer 4, below the launcher. Promise: a reserved port is given to nobody by chance, and rank 0 gets it.
// Enemies: thousands of programs that take whatever is free.
package port
