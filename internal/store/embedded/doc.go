// Package embedded runs etcd inside this process.
//
// Place: layer 3, the store's own engine for `fermi up`. Promise: no TCP, only unix sockets in a
// folder that nobody else can enter; a write that was acknowledged is on disk; a second process on
// the same folder, a folder of a newer version, a damaged file and a full disk are each told
// apart and named, and none of them changes anything. Enemies: os.Exit deep inside a library,
// repairing what an operator should first look at, two processes in one folder.
package embedded
