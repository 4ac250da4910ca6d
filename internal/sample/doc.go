// Package sample holds the small real workloads inside the binary, for the first minute and for
// tests: no Python, no image, no GPU.
//
// Place: beside the layers: standard library and the command library only, imported by the
// command line. It runs as a user's process and knows of Fermi only what any script knows: the
// FERMI_* environment.
// Promise: a real model, real gradients, a loss that falls; the same seed gives the same bits; a
// SIGTERM saves and ends quickly with 143.
// Enemies: work at start-up (it is in every `fermi`), timings or maps that change the result.
package sample
