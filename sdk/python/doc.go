// Package python is the Python SDK as files, so that a launcher can give it to a script on a machine
// where nobody installed it.
//
// Place: data that the binary carries; it imports nothing of ours.
// Promise: Write leaves the package fermi of this very version in a folder.
// Enemies: a folder that someone else wrote into before.
package python
