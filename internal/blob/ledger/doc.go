// Package ledger adds up the bytes that are kept for each project, by what they are.
//
// Place: layer 3, beside the stores of bytes; who stores something asks it first.
// Promise: a question costs no look at any store; what is added and taken away is counted at once, and a
// new count of everything (Replace) takes the place of the old one without losing what came meanwhile.
// Enemies: a server that restarts and knows nothing, several servers that each see their own writes,
// bytes of tasks that are long gone.
package ledger
