// Package preflight knows what must hold before the processes of a task start together, and names
// what does not, with what to do about it.
//
// Place: layer 2, pure; launchers look and measure, the leader asks and lets this judge.
// Promise: every finding names its replica, pair or field, in both languages. Enemies: a finding per
// victim where one cause would do; a check that holds up a task for longer than its findings are worth.
package preflight
