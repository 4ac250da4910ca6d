// Package predict says how long a workload will still run, from how long others like it ran.
//
// Place: layer 2, under sched; it knows times and names only. Promise: bounded memory, no clock,
// the same history gives the same answers; an answer always exists, also for who was never seen
// and for who has already run longer than anybody before.
//
// Enemies: durations spread over five orders of magnitude, users who declare anything, a first
// repetition, a task that outlives every estimate.
//
// The simple story: finished times are counted in buckets that grow by a fifth each, one table per
// (user, name, devices), per (user, devices), per devices and for all. The most special table with
// enough entries answers. A time or deadline that the user declared is learned as a ratio, what ran
// over what was declared, and is used where that ratio has been the steadier of the two. An answer
// is always conditional on the time already run: of those that ran at least so long, how much more
// was it? Old counts are halved as new ones come, so that habits may change.
package predict
