// Package agency is how machines join, and the wire between their agents and the leader.
//
// Place: layer 4, beside link, on whose TLS door it is served; agentengine gives the frames their meaning. Promise: a machine gets in with a one-time
// token, once, and from then on with a certificate that the servers' link key signed and that ends with its node; an agent speaks only to
// a server that holds the key which its token named; when a stream breaks the agent dials again, at every address it knows, with a growing pause.
// Enemies: a token in a process list, a certificate that nobody can take back, a clock that is off by a day, a storm of agents after a server's death.
package agency

//go:generate protoc --go_out=. --go_opt=module=github.com/fermi-cluster/fermi/internal/link/agency --go-grpc_out=. --go-grpc_opt=module=github.com/fermi-cluster/fermi/internal/link/agency agency.proto
