// Package selection knows what environments that were chosen as the nodes of a training are together:
// their sum, their master, what is unwise about them, and what the framework makes of them.
//
// Place: layer 2, pure; the server finds the environments. Promise: sizes that don't fit are refused
// with those that do. Enemies: a master that was not chosen; an environment counted twice.
package selection
