// Package tree reads a manifest, JSON or YAML, into a plain tree and notes everything that is wrong with its form.
//
// Place: layer 1, below the vocabulary. Promise: the same document gives the same tree and the same notes; no document makes it
// panic, take long or grow beyond its bounds. Enemies: keys given twice, aliases that expand for ever, bytes that are no text.
package tree
