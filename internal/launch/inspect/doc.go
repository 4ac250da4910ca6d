// Package inspect looks at a node before the ranks of a replica start there: versions, disks, devices, and the ways to the others.
//
// Place: layer 4, below the launcher; what it finds is judged by internal/preflight at the leader.
// Promise: it takes seconds, whatever hangs; nothing of it runs when ranks start; it opens no path of a tenant itself.
// Enemies: a driver that hangs, a port that another program answers, a folder of packages without end.
package inspect
