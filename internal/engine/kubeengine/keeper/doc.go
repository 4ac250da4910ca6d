// Package keeper hands gangs over to a queue that the cluster itself has, kept by Kueue or Volcano.
//
// Place: layer 3, beside the engine of pods, which asks it before it makes the first pod of a gang.
//
// Promise: one object for a gang in a place, never two; no pod before the keeper let its gang in; what is over is deleted.
//
// Enemies: pods that the keeper does not count, an object that outlives its gang.
package keeper
