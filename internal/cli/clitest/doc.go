// Package clitest speaks the REST contract from memory, for tests of commands.
//
// Place: beside cli, used by tests alone. Promise: the same answers as the server for what the commands ask; the real
// server is tested with the real commands in test/e2e. Enemies: an answer that no server gives.
package clitest
