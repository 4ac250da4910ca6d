// Package files copies files and folders between this machine and a replica, over sftp.
//
// Place: layer 5, below cli, whose command cp it is. Promise: a file appears whole or not at all, with its time and rights; what was acknowledged is not
// sent twice, also by the next call; nothing is written outside of the folder that was named, whatever names the other side tells.
// Enemies: a connection that breaks in the middle, a file that changes meanwhile, a name such as ../../.ssh/authorized_keys.
package files
