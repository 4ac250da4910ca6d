// Package rsh starts the processes of mpirun and its like in other replicas of the same task: no
// sshd, no keys in an image.
//
// Place: layer 4, a program of the user's side that happens to be inside the binary: it knows what
// any process of a replica knows, and has no more rights.
// Promise: a command runs in the named replica as if it had been started there (its environment, uid,
// cgroup, folder), with stdin, stdout, stderr, signals and exit code passed on; only replicas of one
// attempt can ask each other; when the asker is gone the command is ended.
// Enemies: a stranger on the port, an output that nobody reads, a command that outlives who asked.
//
// The simple story: every replica but the first runs `fermi rsh serve`, which listens on the
// replica's reserved port with mutual TLS by the attempt's key. The first runs `fermi rsh lead --
// mpirun …`, which puts an agent in mpirun's way (`fermi rsh run HOST COMMAND…`, also by the name of
// ssh) and, when mpirun has ended well, tells the others to end. Both find names and addresses in
// $FERMI_RECIPE/rsh_hosts, the key in $FERMI_RECIPE/task.key.
package rsh
