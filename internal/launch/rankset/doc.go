// Package rankset is what a launcher knows of its own ranks, and what it tells the leader about them: which steps they hold, how far they
// are, whether they hang, and who of them would stay in the next generation.
//
// Place: layer 4, below the launcher. It speaks to ranks over their socket (word) and to the leader by what Tell is given.
// Promise: a step that the leader may choose is never given up; what a rank of an ended generation says counts for nothing; ranks that
// make no progress are seen, and those that work are not blamed.
// Enemies: ranks that say anything, that are killed between two words, that print instead of speaking, pauses that nobody announced.
package rankset
