// Package gateway is the road of inference requests: it finds the service that a request means, lets in who may ask it,
// chooses a replica, and carries question and answer.
//
// Place: layer 4; inside `fermi up` and as `fermi gateway`. It knows what the watch brings (ServiceEndpoints, Token, User,
// Project), and writes nothing. Inference traffic never uses the link: the gateway dials the replica.
//
// Promise: it goes on answering from what it knows while the control plane is away. An answer that has begun is never
// repeated; a question is repeated only where that is safe: nothing was sent, or it is idempotent and nothing came back. A
// stream is passed on chunk by chunk and is not cut for being silent. What a caller may not see does not exist. No token or
// cookie of a caller reaches a service.
//
// Enemies: replicas that die in the middle, slow clients, slow services, callers of other projects, bytes of services that
// act in the console's name.
package gateway
