// Package recipe knows how each framework wants to be started: from a task, its world of processes
// and their devices it makes environment, files and commands, or says what does not fit.
//
// Place: layer 2, judgement: no I/O, no clock, no goroutine; the same input gives the same bytes.
// The server asks it before a task is taken and for the preview, the train controller at a start,
// the launcher for its table of vendors.
// Promise: what framework has which strategy, and what a vendor calls its cards, stands in tables
// (table.go, vendor.go), and nowhere else; sizes that don't multiply to the world are refused with
// those that do; every number comes out of the input.
// Enemies: a second table, an environment that hangs instead of a refusal, a variable longer than
// Linux gives a process.
//
// The simple story: a task's role is a world of processes, numbered over its replicas in order. The
// first role shares the work as the strategy says. Most frameworks want each process started with
// its place in variables (start: rank). mpirun and horovodrun start their processes themselves
// (start: lead), Ray has a head that runs the script (start: ray).
package recipe
