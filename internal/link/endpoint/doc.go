// Package endpoint is where servers are reached over the link, and how: the targets, the file in which launchers find them, and TLS.
//
// Place: layer 4, below link. Promise: what is not on a unix socket is over TLS, and a launcher speaks only to a server that holds
// the key its target names; a target is added, replaced and read whole. Enemies: a token in the open, targets that pile up.
package endpoint
