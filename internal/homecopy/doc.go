// Package homecopy writes a home down as files of a version of a dataset, and fills a new home from them.
//
// Place: layer 3; it knows folders and lists of files, no server. Both directions run as who owns the home. Promise: what Fill makes has the folders,
// files, links, modes and times that Scan saw; a home that has anything in it is left as it is, unless a Fill of before was cut off in it; nothing is
// read or written outside of the two folders. Enemies: names that no dataset can have, links that lead out, a list made by somebody else, a kill at
// any moment.
//
// The simple story: each file of the home is a file of the version, and a list beside them, .fermi-home/index, says what a dataset does not: folders,
// links, modes, times. How the code differs: a file whose name no dataset can have lies in .fermi-home/odd, and the list knows its name.
package homecopy
