// Package asset is the kinds Dataset and Model, their versions, and the manifest that says which bytes a version is.
//
// Place: layer 1, over the vocabulary. A dataset or model is a name; a version is one manifest, and never changes. The bytes of all files, one
// after the other, are cut into chunks that their BLAKE3 names, so that what two versions share is kept and sent once. Small files share chunks.
// Promise: what Decode returned can be laid out in a folder without leaving it. Enemies: manifests made by somebody else.
package asset
