// Package call is one call of a command: its client, streams, language and flags, and how it prints and ends.
//
// Place: layer 5, below all commands that talk to a server. It knows no kind of object. Promise: data goes to stdout
// and nothing else does; a token is never taken from the command line, and the local one never leaves this machine; a
// file is whole or absent. Enemies: half-written files, a progress bar in a log file, a Ctrl-C that looks like a fault.
package call
