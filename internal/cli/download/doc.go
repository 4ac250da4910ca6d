// Package download gets a file from the server that may be cut on the way.
//
// Place: layer 5, below the commands. Promise: what was cut is asked for from where it ended, so that a line that breaks costs
// little and a server that cut it on purpose says why. Enemies: a file that changed between two parts.
package download
