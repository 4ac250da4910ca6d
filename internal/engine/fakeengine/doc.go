// Package fakeengine is an engine in memory, for the simulator and for tests.
//
// Place: layer 3, an adapter of the engine port. World is the far end, the machines: it keeps replicas while engines
// come and go, and whoever plays the world says there what happens to them. Engine is what a leader holds.
//
// Promise: it passes enginetest; nothing happens by itself, no goroutine runs and no time passes, so that the same calls give
// the same feed, in the same order. Enemies: behaviour that no real engine has.
package fakeengine
