// Package cache knows which nodes have which versions of datasets and models, as far as was seen.
//
// Place: layer 2, judgement; the standard library alone. Promise: a node is named for a version only where work that reads it has run, which it does
// once every byte was verified there. A node may have thrown a version away since: this decides between places that are as good as each other, and
// nothing else. Enemies: versions and nodes without number; what was seen longest ago is forgotten.
package cache
