// Package logs prints what replicas wrote, as it comes.
//
// Place: layer 5, on call. Promise: lines of several replicas never mix; nothing in them acts on the terminal unless
// raw bytes were asked for. Enemies: progress bars without a line end, control sequences.
package logs
