// Package terminal serves shells in replicas of any kind of work, as WebSockets.
//
// Place: a room of the server, over streams and objects. It reaches a replica through its launcher's link alone: no file and no socket of a
// replica is opened here.
// Promise: only its owner gets in, and where it is shared the members of its project; who loses that right loses the terminal within
// seconds; every opening is in the audit; the shell outlives the connection.
// Enemies: a page of another origin, a reader that stops reading, a token that was revoked.
package terminal
