// Package asset keeps the bytes of datasets and models: chunks that their BLAKE3 names, and manifests that name chunks.
//
// Place: layer 4, over the port blob. All of a project lies in one folder: nobody learns from it what another project has.
//
//	assets/PROJECT/chunks/ab/…   one object a chunk; put once, read verified
//	assets/PROJECT/manifests/…   of versions; which versions there are is the store's to say
//	assets/PROJECT/uploads/…     of versions on their way
//	assets/PROJECT/condemned     chunks that nobody named at the last look, and since when
//
// Promise: what was said to be there stays until no version and no young upload names it; no byte is given that is not the one that was put.
// How: a chunk that nobody names is first written down, and deleted by a look that comes a grace later and still finds it named by nobody. An upload
// writes down what it is about before it asks what is there, takes what it relies on off that list, and a version counts only after all of its
// chunks were found. Enemies: uploads that die, two at once, collectors beside uploads, flipped bits, torn writes.
package asset
