// Package roundtrip has the words for how far zones are from each other: what was measured, what is declared, and what a task that runs in
// several zones found.
//
// Place: vocabulary, below api/v1, whose Zone and TrainingTask hold them. Promise: data only; sched/cost judges by it. Enemies: a figure that
// nobody measured.
package roundtrip
