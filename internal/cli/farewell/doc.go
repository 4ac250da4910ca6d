// Package farewell gives up nodes and zones: `fermi node lost`, `fermi zone outage` and `fermi zone recover`.
//
// Place: layer 5, on call. Promise: nothing is given up before it was shown and confirmed, or --yes was said.
// Enemies: a question that nobody is there to answer.
package farewell
