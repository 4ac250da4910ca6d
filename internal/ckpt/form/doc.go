// Package form knows the formats that scripts save their checkpoints in, as far as it takes to say whether one is whole.
//
// Place: layer 4, beside ckpt and below watch, which asks it about what lies in a folder. It reads a few bytes of
// files through a Source and keeps nothing.
// Promise: Whole is said of what its own format shows to be complete (the end of a zip, the length of a safetensors file,
// the state that a Trainer writes last, a latest file that names it), Partial of what its own format shows to be cut
// off, Unknown of all else; the caller then has to judge by other means. Nothing of a file is run, and no answer needs more
// than a bounded number of bytes, whatever the file says.
// Enemies: files that were cut off anywhere, lengths that lie, folders that mix formats.
package form
