// Package workload proves that a kind of work needs its own files and one row: the kind Probe, which no shipped program
// has, is placed, restarted, drained, listed, watched, archived and charged by the whole program, beside a training task.
//
// Place: test only. Promise: nothing outside this folder knows the kind. Enemies: a place that knows training tasks by name.
package workload
