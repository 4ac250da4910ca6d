// Package enginetest is the conformance suite of the engine port: every adapter runs it.
//
// Place: layer 3, for tests. Promise: an adapter that passes does what package engine says: create only if absent, names that never change,
// orders of the newest leader only, calls that may be repeated, a feed that is complete after every re-attach, and nothing lost and
// nothing twice when the engine's owner is killed between any two calls or in the middle of one. Enemies: a test that knows one
// adapter.
package enginetest
