// Package inside is the wall around a project's processes on one machine: their own uid, nothing
// of the platform's folder, and private processes, shared memory and temporary folders.
//
// Place: layer 4, between the launcher and the user's process; it knows neither the link nor the
// records. Standard library alone, see below.
// Promise: the user's process runs as its project's uid without groups, capabilities and new
// privileges; it sees no process but those of its replica, nothing in the folders to hide but what
// was bound there, and /tmp, /var/tmp and /dev/shm of its own; its exit status comes out bit by
// bit; when process 1 in there is killed nothing of the tree lives on.
// Enemies: a descriptor or variable that comes along, a path resolved with root's rights that the
// user can change, a half-built wall.
//
// In an image an environment is root, of a user namespace: see rooted.go and layer.go.
//
// The simple story: the launcher starts another program in new mount, pid and IPC namespaces. As
// process 1 there it builds the mounts, drops what rights a child could inherit, starts the ranks of
// the replica, reaps, and reports start and ends over a pipe. How the code differs: that program has
// nothing but this package and deed (see the package program); where it is not built in, in tests and
// with a bare go build, it is the launcher's own binary. That is why all this happens in this package's
// init, before other packages have theirs: an etcd, a SQL engine and their tables would cost every
// replica more than ten milliseconds and many megabytes. It is also why only a few packages of the
// standard library are imported here: Go initialises a package once its imports are, and of those that
// are ready the first by name. A test holds the list.
package inside
