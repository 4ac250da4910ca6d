// Package image is the command `fermi image`, and `fermi env save`.
//
// Place: layer 5, on cli. Promise: what is done with an image is a job on a node that is followed to its end, whose log and answer are shown; cut off
// from it, the job goes on and can be looked at. Enemies: an answer that nobody asked a registry for.
package image
