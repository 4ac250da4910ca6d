// Package image is the catalogue of images at the door, and what is asked of image jobs before they begin.
//
// Place: a room of the server, over objects. No registry is asked from here: jobs do that on nodes, on the network of their project. Promise: what
// work runs in is what its manifest says, or the digest that the entry it names was found to be; what an operator does not allow is refused before
// anything starts; an entry is verified by a job that read its registry, or not at all.
// Enemies: a name that means two things, an entry of another project, a claim without a check.
package image
