// Package linkpb is the wire format of the link, generated from link.proto, and what of it has words of its own in the engine's port.
//
// Place: layer 4, below link. Promise: nothing here decides. Enemies: a number that is taken as it comes.
package linkpb
