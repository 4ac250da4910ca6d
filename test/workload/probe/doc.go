// Package probe is a kind of work for tests: one role, started, kept running and started again as a whole.
//
// Place: test only; what a kind brings, and no more. Enemies: a shipped program that has it.
package probe
