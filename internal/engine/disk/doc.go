// Package disk counts what a replica keeps on its node's disk, and says when that is more than it may.
//
// Place: layer 3, beside the host engine; the launcher watches the folder of its replica.
// Promise: what is counted is what takes room (blocks, each file once, also files that were deleted and
// are still open); no link is followed, no file is opened, no other file system is entered; a folder of
// any size costs a bounded part of one core.
// Enemies: links swapped in during the walk, trees a thousand levels deep, sparse files, hard links,
// millions of files, files without a name.
//
// Where the file system keeps quotas for projects (ext4 and XFS mounted with prjquota) the kernel counts
// and refuses by itself: the folder gets a project number of its own, and nothing is walked. Elsewhere
// the tree is walked again and again, in slices with pauses.
package disk
