// Package ending says in words how a replica ended, and why.
//
// Place: layer 4, below the controllers of all kinds of work. Pure: what the launcher wrote down in, texts out.
// Promise: the words of the program that decided come first, where there are any; what the launcher itself said is never lost.
// Enemies: an exit code that stands alone.
package ending
