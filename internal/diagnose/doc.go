// Package diagnose says why a rank failed, whose fault it was and what to do: a table of rules in
// data (rules.json) over how a process ended and the last it printed.
//
// It also says how far a rank is that only prints: a second table (steps.json) over its lines.
//
// Place: layer 2, pure: no clock, no files, no goroutine. The launcher brings evidence, the leader
// judges over all ranks.
// Promise: every end has a cause; of many ends the earliest that has a cause of its own is named,
// and never one that only died of another. Each rule has a log as its sample in testdata, which says
// where it is from, and a row in docs/reference/faults.md, which is made from the table.
// Enemies: words of an error that was handled long before the end; a victim that is quicker to die
// than the culprit; a log that is megabytes long or no text at all.
package diagnose

//go:generate go test -run Page -update .
