// Package layer writes down what was written over an image, and writes it over the same image elsewhere.
//
// Place: layer 4, part of launch; a program of the tenant's, as root of the user namespace of an image, behind the wall. Promise: what Lay writes over a
// bare image is what Diff saw, by content, owner, mode and time; nothing of what is mounted is looked at or touched. Enemies: an archive made by somebody
// else, names that lead out, links on the way, a kill at any moment (then the layer is thrown away and laid again).
//
// The simple story: two file systems are compared, the environment's and the bare image; what differs is a layer of an image, as a tar archive in which
// a file .wh.NAME says that NAME was removed. How the code differs from reading the folder that was written to: only the machine's root can read the
// marks in there, and they say where a folder came from, not what is in it.
package layer
