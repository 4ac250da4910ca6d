// Package archive keeps uploaded code, and who may use it.
//
// Place: over the port blob.
//
// Promise: the same bytes are kept once; to whom they were not given they do not exist, and an upload says nothing
// of whether they were there.
//
// Enemies: a digest that was overheard; uploads that never end; projects that keep too much.
package archive
