// Package talk is how a server talks with a launcher about what people do in a replica: terminals and commands.
//
// Place: layer 4, below link, whose second connection it uses. The server rings (link's Call), the launcher answers by opening a
// stream, and both speak frames until one of them ends it.
// Promise: a stream is opened only by the replica that was rung for, once, and within a bounded time; a slow reader holds up its own
// stream alone. Enemies: an answer for somebody else's call, a call that waits for ever, frames beyond bounds.
package talk

//go:generate protoc --go_out=. --go_opt=module=github.com/fermi-cluster/fermi/internal/link/talk --go-grpc_out=. --go-grpc_opt=module=github.com/fermi-cluster/fermi/internal/link/talk talk.proto
