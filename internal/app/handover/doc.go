// Package handover hands gangs over to the queues that Kueue or Volcano keeps in a cluster.
//
// Place: layer 6, assembly. Promise: of each gang that has a place in such a cluster there is one object of the keeper, of the size of what stands there; its pods
// are made when the keeper has let it in; it goes with the attempt; a gang that the keeper wants out saves and leaves. Enemies: an object that outlives its gang and
// keeps others out, a second word about where pods stand.
package handover
