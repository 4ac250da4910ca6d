// Package wire asks one replica one question over HTTP/1.1, on a connection that it keeps.
//
// Place: layer 4, below the gateway, which chooses replicas and decides what may be asked again. Promise: who asks writes and
// reads in its own goroutine, so that a request costs no switch between goroutines and an open stream costs one small
// buffer; a connection is used again only when both sides are done with it and nothing lies unread in it. An error
// says whether anything was sent.
//
// Enemies: a replica that closes a kept connection just when it is used, answers before it was asked, sends headers without
// end, or stops in the middle; a client that leaves while its question is under way.
package wire
