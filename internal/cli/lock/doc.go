// Package lock encrypts backups and opens them again (age).
//
// Place: layer 5, below the commands that write and read backups. Promise: a passphrase is never an argument; a file
// that was cut or changed is an error. Enemies: a secret key in the history of a shell.
package lock
