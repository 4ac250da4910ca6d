// Package door lets callers in: tokens, sessions, sign-in codes and passwords.
//
// Place: over rest and access; the handlers behind it meet only who was let in.
//
// Promise: secrets are kept as hashes; a session or code ends everywhere at once; nothing outlives what made it; a
// page of another origin changes nothing.
//
// Enemies: guessers; pages of strangers and DNS rebinding; tokens that were revoked; a screen left open.
package door
