// Package asset is the commands `fermi data` and `fermi model`.
//
// Place: layer 5, on cli. Promise: both kinds have the same verbs in the same words; what was cut is gone on with by saying it again. Enemies: a
// transfer of hours that is lost at its end.
package asset
