// Package rootfs keeps the file systems of images on a node, for the replicas that run in them.
//
// Place: layer 4, part of launch; it knows registries and disks, not replicas. Promise: what Bring
// returns is whole, is what its digest says, and stays while it is held; many replicas that want the
// same image at once fetch it once; who may not read an image at its registry does not get it here.
// Enemies: a layer that writes outside its folder, a bomb, a download that breaks or is damaged, two
// launchers at once, a kill at any moment, a tag that moves, a registry that is away, a full disk.
//
// The simple story: ask the registry what the reference stands for, fetch the layers that are not here,
// lay them out one over the other, rename the whole into its place. On disk, in one folder per node:
//
//	roots/HEX/       the file system (root) and what the image says about itself (image.json)
//	blobs/HEX        layers that were fetched and not yet laid out
//	locks/HEX        held shared by who uses the image, alone by who makes or removes it
//	refs/UID-HEX     what a reference stood for when a project asked for it last
//	owned/UID-HEX    the bytes that a project is charged for an image, locked while it uses that
//
// Files belong to who made them, a uid that is nobody's, and are readable by all: ranks run as their project's uid and see them read-only,
// so one copy serves every replica of the node.
package rootfs
