// Package signature has requests to the shared store proved by a server, for launchers that may not have its credentials: those in pods, where the user's own
// processes could read them.
//
// Place: layer 4, beside link, on whose second connection and tokens it rides. Promise: what a replica asks for is signed if the server's Sign says so, and
// comes back as headers; no credential leaves the server, and the bytes go past it. Enemies: a request that is more than it looks like, one that is signed twice
// as wide as it must be.
package signature
