// Package steward does for a launcher what must be done with its tenant's rights: whatever touches a path
// that the tenant named, or that lies in a folder the tenant can write to.
//
// Place: layer 4, part of launch. It knows the requests of deed and a process that serves them, not
// replicas. Promise: no path of the tenant's is opened, made, walked, moved or removed but by a process
// that has become the tenant for good, behind its wall; what comes back is bounded, and a descriptor that
// comes back is of a regular file. A request that hangs ends with an error after Patience, and the process
// with it; one that has died is started again. Where there is no tenant the launcher is its owner's, and
// does the same itself.
// Enemies: answers from a process of the tenant's uid (input like any other), a file system that hangs,
// a kill at any moment.
//
// The simple story: one long-lived process per replica, two sockets to it ("lanes"), so that a long look
// at outputs does not hold up what a recovery waits for. A request and its answer are one frame each.
package steward
