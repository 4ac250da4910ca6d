// Package orderlink is the link as the place that a launcher's orders come from: for one in a pod or on a far host, where there is no folder
// that the engine writes to. The launcher has a folder of its own, in which it keeps what it was told.
//
// Place: layer 4, below the launcher; the second adapter of its port (launch.Orders). Promise: what is to run is asked for until it is known, and
// then kept, so that a launcher which comes back can hand over without a server; only the newest leader's stop counts; a go that was kept is
// there for ever. Enemies: a leader whose time is over, a server that is away at the start.
package orderlink
