// Package foreign is servers that are not Fermi's, for tests: a Git server, and one that hangs up.
//
// Place: proof; it imports nothing of ours, so that the tests of any package may stand on it. Promise: what it starts ends with the test.
package foreign
