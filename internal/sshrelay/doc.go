// Package sshrelay carries what an SSH client forwards into a replica: ports and sockets that listen there (-R), its agent (-A), and sockets
// there that it wants to reach (-L with a path).
//
// Place: layer 4, foundation only. Serve is a program of the tenant's that happens to be inside the binary: the launcher starts it behind the
// replica's wall, as the tenant, once for each SSH connection that needs it. Session is the door's side. Between them are streams over the
// program's standard input and output: one for each wish, and one for each connection that somebody in the replica made.
// Promise: what listens does so for this SSH connection and ends with it; every socket is made with the tenant's own rights.
// Enemies: a tenant's own program in the place of this one, whose words the door takes as input; connections that nobody closes.
package sshrelay
