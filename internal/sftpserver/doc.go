// Package sftpserver serves files over the protocol of sftp on standard input and output.
//
// Place: layer 4, a program of the tenant's that happens to be inside the binary: the launcher starts it behind the replica's wall, as the tenant,
// for the sftp subsystem of SSH. Images need no sftp-server of their own.
// Promise: it does what the tenant may do, from the home folder on, and ends with its input. Enemies: rights that are not the tenant's.
package sftpserver
