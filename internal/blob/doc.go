// Package blob is the port to large objects: code archives, logs, outputs, checkpoints.
//
// Place: layer 3. Promise: an object appears whole or not at all; Put returns after it is
// durable; keys are plain paths that can never leave the store. Enemies: half-written objects,
// keys made from user text without a check, whole objects in memory.
package blob
