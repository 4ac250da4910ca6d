// Package orderbook is the folder of a replica as the place that a launcher's orders come from: the engine writes what is to run, leaders write
// their epochs and their stops, and the launcher keeps the go that it was given.
//
// Place: layer 4, below the launcher; the first adapter of its port (launch.Orders). Its files are those of internal/engine/record.
// Promise: only the current leader's stop counts; a go that was kept is there for ever. Enemies: a leader whose time is over, a torn file, a full disk.
package orderbook
