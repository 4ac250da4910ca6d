// Package data tries datasets and models with the shipped binary, as ordinary members use them.
//
// Place: test only. Promise: uploads that are killed go on, also when the server beneath them is killed; nothing acknowledged is sent twice; others see nothing.
// Enemies: bad lists of files, lost acknowledgements, servers that die beneath an upload.
package data
