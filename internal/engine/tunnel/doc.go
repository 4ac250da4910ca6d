// Package tunnel encrypts what this machine sends to chosen others, with WireGuard, and takes nothing from them that is not encrypted.
//
// Place: layer 3, the machine's way to others as network is the way between its replicas. Promise: what goes to the address of a chosen machine goes encrypted, or not at
// all, whatever program sends it and whether its agent lives. Addresses stay as they are. Enemies: a tunnel that is not there yet, a key that nobody knows, a dead agent, a firewall
// that knows nothing of it, a machine at the other end that sends in plain, or somebody who has its address.
//
// The simple story: addresses of chosen machines have a routing table of their own, which is asked before the machine's. There each has two routes: a good one into the
// WireGuard interface, and a bad one that ends nowhere, which counts when the good one is missing. How the code differs: WireGuard's own packets, and those between agents and servers, which are
// encrypted by themselves and must get through while a tunnel is made, are sent past that table by their ports. What comes from such a machine past the tunnel, and is neither of these, is dropped by a table of the machine's packet filter. Where the kernel has no WireGuard a process of its own does the work (Serve): it outlives the agent
// that started it, as launchers do.
package tunnel
