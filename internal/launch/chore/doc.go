// Package chore does the long things that a replica needs before it starts, in a process of their own: code archives are
// unpacked, repositories cloned, images, datasets and models fetched and laid out.
//
// Place: layer 4, part of launch; it ties unpack, gitcode, rootfs and depot to a process that has given up its rights. Promise: what
// a tenant named is fetched and unpacked by a process that has become the tenant, behind its wall and on its network; layers, which
// projects share, are verified and laid out by a uid that is nobody's. The launcher gives an order and the bytes it has, and hears one
// bounded word. Enemies: archives and layers that break what reads them, a server that says nothing, a kill at any moment.
//
// The simple story: the launcher starts this same binary again behind a wall, its order on standard input, its answer
// on standard output. How the code differs: it begins in this package's init, so that it does not wait for packages that it has no use for.
package chore
