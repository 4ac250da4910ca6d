// Package train has the commands of training tasks.
//
// Place: layer 5, on object and logs. Promise: `train run` ends as its task did; a Ctrl-C loses no work; a checkpoint
// that is fetched is whole, of one step and verified. Enemies: a second Ctrl-C, a server that is away, ranks of two
// checkpoints side by side.
package train
