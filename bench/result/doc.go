// Package result keeps what was measured: one JSON file for each benchmark and machine, with its newest run, and the page made
// from these files.
//
// Place: proof, beside the benchmarks. Promise: bench/RESULTS.md, docs/reference/planner.md and its pictures are functions of bench/results; one number a row.
// Enemies: figures written by hand, a missed bound that nobody sees, stories between the numbers.
package result
