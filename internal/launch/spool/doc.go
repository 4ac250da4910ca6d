// Package spool is the log of a replica on disk: what its ranks printed and what the launcher says to the user, line by line.
//
// Place: layer 4, below the launcher; link ships it to a server.
// Promise: what lies below its size is always whole lines; a secret is never in them; a full disk never stops the process.
// Enemies: a disk that is full, a launcher that is killed in the middle of a line.
package spool
