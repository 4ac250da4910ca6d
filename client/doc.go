// Package client speaks Fermi's REST API from Go.
//
// Place: layer 5, a door; the CLI and the end-to-end tests use nothing else. Imports only api/v1
// and the foundation.
// Promise: every error is a *fault.Error rebuilt from the server's answer; reads are tried again
// when that can help; log and watch streams reconnect by themselves, without repeating or losing
// anything the server still has.
// Enemies: retried writes, unbounded answers, a token in an error text, a stream that ends early
// and looks complete.
package client
