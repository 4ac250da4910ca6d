// Package shape is what JSON must look like, said in a part of JSON Schema, and the check of it.
//
// Place: layer 1. Promise: a schema that is taken is kept whole: a word that is not known here is refused, not passed over. A check
// reads the bytes once, builds nothing of them and names the first place that is wrong. Enemies: bytes that are small on the wire and large in memory,
// patterns that never end (Go's regular expressions take time in proportion to the text), schemas that lead back to
// themselves or unfold without end ($ref is read where it leads, within a bound of parts), alternatives within alternatives (a check has a bound of steps).
package shape
