// Package fault holds the one error type that people see.
//
// Place: the bottom of the house; everything may import it.
// Promise: a closed set of codes decides, in one place, the HTTP status, the exit code of the
// CLI and whether a retry can help. A message is safe to show, in Chinese and in English; the
// cause is only logged.
// Enemies: matching errors by text, leaking a cause to a client, a new code for every caller.
package fault
