// Package activity looks at a replica for signals that somebody works in it: what was typed, kernels, traffic, programs in the foreground,
// cores, devices.
//
// Place: layer 4, in the launcher, beside its terminals and tunnels. It judges nothing: who asks gets the table (api/v1/activity).
// Promise: a look costs the replica nothing that could be felt; what a notebook answers is bounded, and one that does not answer counts as
// at work. Enemies: an answer of the tenant's that is too long or never ends, a signal that its own look keeps active.
package activity
