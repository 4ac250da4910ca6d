// Package shm is the memory of the ranks, $FERMI_SHM: slots with their states, which outlive their processes.
//
// Place: layer 4, below the launcher. The folder is the ranks': whatever lies there is opened, made and moved by the steward, and read and written
// here by the descriptor that it gives.
// Promise: nothing is found that is not whole and what was asked for. Enemies: a rank that puts anything it likes in the place of a slot.
package shm
