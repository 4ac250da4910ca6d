// Package depot keeps versions of datasets and models on a node, laid out as folders, for the replicas that mount them.
//
// Place: layer 4, part of launch; it knows disks and lists of files, not replicas. Promise: what Hold returns is whole, has the hash that it should
// have, and stays while it is held; many replicas that want the same at once lay it out once; nothing half laid out is ever in its place; together
// they take no more of the disk than they may, and what nobody holds goes first, the longest unused before the others.
// Enemies: a kill at any moment, a list that leads out of its folder, bytes that are not what they should be, a full disk, two launchers at once.
//
// The simple story: ask for the list, make its files, fill them chunk by chunk, rename the whole into its place. How the code differs: who keeps
// the books (Hold) is root and touches nothing but locks; who writes and removes files (Lay, Drop) is a process that has become the project, and
// asks for bytes over a socket (Relay). What a killed one left is read again, and only what is missing or wrong is asked for.
//
//	locks/UID-DIGEST      held shared by who uses it, alone by who lays out or removes it; its bytes; when it was used last
//	locks/room            held by who makes room
//	UID/DIGEST/root       the files
//	UID/.new-DIGEST       on its way
package depot
