// Package lend is the way of datasets and models from a server to a launcher: the server's Desk gives the bytes of versions, the launcher's
// Source asks for them.
//
// Place: layer 4, beside link, on whose second connection and tokens it rides.
// Promise: a replica gets the versions that its own work names, while its attempt runs, and no other; what is not there, or is not its own,
// sounds the same. Who asks verifies what came: by the hash of the list, and those in it.
// Enemies: a replica that asks for others' data, a list that is damaged, a stream that is cut.
package lend
