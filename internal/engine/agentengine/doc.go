// Package agentengine is the engine port over a stream of frames: a server's engine whose replicas are on machines that joined with an
// agent (Engine), and the agent's end of it, which hands every order to an engine of its own machine (Hand).
//
// Place: layer 3, an adapter of the engine port; it knows no other adapter and no wire, only that frames arrive in order or not at all.
// Promise: an order reaches the machine's engine under the epoch of the leader that gave it, or is answered with an error; what the
// machine's engine says reaches the server before the answer to the order that caused it; of a machine that says nothing the last that
// was known stays known, and what is to end there is told when it comes back. Neither end judges.
// Enemies: an agent that decides, a replica that counts as ended because its machine is silent, two agents of one name.
//
// The simple story. The agent opens a stream and says hello. The server answers with its epoch. The agent opens its machine's engine under that
// epoch, sends everything that this engine knows, then "whole", then every change; orders and their answers travel beside it. How
// the code differs: several servers may have a stream at once, while one takes over from the other; the machine's engine is that of the highest epoch, and
// streams of lower ones end.
package agentengine
