// Package rankimage is what a rank has of a checkpoint, opened to be sent.
//
// Place: layer 6, a part of the assembly that knows checkpoints and nothing of the server. Promise: a damage that is found while bytes are sent
// is kept with the checkpoint. Enemies: disks that change what they keep.
package rankimage
