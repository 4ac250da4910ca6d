// Package parity runs the same features on every engine and notes what became of each: docs/parity.md is made of these notes.
//
// Place: tests. Promise: a "yes" was seen by a test that ran on that engine, a "no" is the refusal that a user gets there, in its own words. Enemies: a table
// that is written by hand.
package parity
