// Package sshdoor is the door for SSH: every stock client reaches an environment with its user's key.
//
// Place: a room of the server, over terminals, whose rules about who may enter are its own. It reaches a replica through its launcher's link
// alone.
// Promise: a user's registered key opens the environments that the user may enter, and nothing else; who loses that right loses the
// connection within seconds; strangers are counted by address and a user's own mistakes by user, so that no stranger shuts out a user at the same
// address; refusals are in the audit like every entry; shells, commands, sftp and forwarded ports are the tenant's, behind the replica's wall.
// Enemies: guessers, a public key shown without its proof, a client that reads nothing, a connection that nobody closes.
package sshdoor
