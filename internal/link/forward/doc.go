// Package forward is the road to replicas on machines that joined: a gateway dials the machine's agent, names a replica and a port, and
// the agent passes bytes on.
//
// Place: layer 4, beside agency. Promise: only who holds the link key gets in, and reaches nothing but replicas that live on the machine; the other
// end is the agent of the node that was meant. A dial that fails has sent nothing to the replica.
// Enemies: a port that is open to everybody, an agent's host reached through its forwarder, two machines whose replicas have the same address.
package forward
