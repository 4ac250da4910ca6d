// Package conf is the settings of a control-plane process.
//
// Place: foundation; read once by the assembly, then handed down as values.
// Promise: one struct; defaults, file, environment and flags in that order, and for each value
// the place it came from; every fault is reported at once, with its key, in zh and en.
// Enemies: settings read where they are used, a misspelt key that is silently ignored, an open
// door by default.
package conf
