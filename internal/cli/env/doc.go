// Package env has the commands of development environments, and shells.
//
// Place: layer 5, below cli, of whose commands these are some. Promise: as of cli; and a shell gives the terminal back as it was, whatever ends it,
// and ends with the status of what ran in it. Enemies: a terminal left raw, a Ctrl-C that ends the wrong program, a cut that loses a shell.
package env
