// Package safety tries to catch the planner doing harm: random clusters, queues and workloads, a
// random course of events, a turn of the planner after each, and a slow bookkeeping of its own
// that is fed only with what the planner decided.
//
// Place: layer 2, tests only; it knows sched by its public face. Promise: a bug that gives a device
// twice, exceeds a limit, cuts a gang, breaks a rule of placement, evicts who may not be or for
// nothing, goes round in circles, leaks, or answers differently the second time is found within
// the seeded few hundred scenarios of go test; test/mutate plants such bugs and counts.
//
// FERMI_SCENARIOS is how many scenarios are tried, FERMI_SEED where they begin: each failure names
// the seed that repeats it.
//
// Enemies: a check that asks the planner's own counters, a generator under which nothing happens.
package safety
