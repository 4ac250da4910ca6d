// Package network gives every replica on this machine a network of its own: a namespace with its own
// loopback and address, on a bridge that only its project's replicas are on.
//
// Place: layer 3, the machine's network as cgroup is its groups. The engine opens it and leases
// addresses; the launcher makes the namespace; both know nothing of the other's half.
// Promise: replicas of one project reach each other, the machine reaches them, they reach the API at one
// address and the world through NAT. They reach no other project, no service of the machine, and no
// link-local or metadata address. Nothing of a replica is left when its processes are gone.
// Enemies: a kill at any moment, another instance on the same machine, another firewall, a name over
// 15 letters, thousands of replicas.
//
// The simple story: a pool of addresses is cut into blocks. A project has the blocks that it needs, and
// each block is a bridge. A lease is an address of a block, kept as a link in a folder before anything
// is made. The launcher makes a namespace, and a pair of interfaces: one end is on the bridge, the other
// is eth0. The kernel removes both with the namespace, which ends with its last process and descriptor.
// One table of rules, by the beginning of the bridges' names, is the same for one replica and for
// thousands. How the code differs: all of it is checked again every few seconds, because others have
// firewalls too, and a block is given up only by a sweep, when no lease is in it.
package network
