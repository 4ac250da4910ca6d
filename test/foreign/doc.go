// Package foreign is servers that are not Fermi's, for tests: a Git server, one that hangs up, and an address at which there is none.
//
// Place: proof; it imports nothing of ours, so that the tests of any package may stand on it. Promise: what it starts ends with the test.
package foreign
