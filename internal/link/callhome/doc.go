// Package callhome carries connections of replicas to the API of a server, over the link.
//
// Place: layer 4, beside link. A replica's processes call one address of their own machine or pod; who listens there, an agent or a launcher, has each
// connection carried as a stream of its own. Promise: the machine need not reach the API's own port, and a byte arrives in its order or the connection ends;
// who may carry is judged by whose stream it is, what is asked there by the API. Enemies: a connection that outlives its stream, a server that answers no more.
package callhome
