// Package slot is the layout of a slot, a file in memory that holds one state of one rank.
//
// Place: layer 0, constants only; ckpt, sample, cli and, through a generated file, the Python SDK use it.
// Promise: each number of the layout is written once; docs/reference/rank-protocol.md describes the whole.
// Enemies: a second definition that agrees today.
package slot

//go:generate go test . -run TestPython -update
