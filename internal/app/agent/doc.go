// Package agent is `fermi agent`: the process of a machine that joined. It runs the host engine on a folder of its own, for the leader.
//
// Place: layer 6, assembly. Promise: what runs on the machine goes on without it and without any server, and is found again; nothing is
// started, stopped or forgotten but on a leader's word; no folder of a server is used. Enemies: a second agent on one folder, a server's path that
// means something else here, a replica that would run as root.
package agent
