// Package mirror is `fermi mirror`: Fermi's objects as custom objects of a Kubernetes cluster, and the other way round.
//
// Place: layer 6, assembly: a client of both sides, with the rights of one token and of one service account. Promise: what is made, changed or
// deleted on one side is so on the other, and the custom object's status says how it is; whatever Fermi refuses is said there, with the field, and costs
// nobody else anything. The two belong together by the id that the custom object notes, so that a name which is given twice joins nothing.
// Enemies: a second truth, two writers of one field, an object that comes back after it was deleted.
//
// The simple story: for each name both objects are read, decide says the next step, and it is done; everything that changes asks for another turn. A
// finalizer keeps a custom object until Fermi's is gone.
package mirror
