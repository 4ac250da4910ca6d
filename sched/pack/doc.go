// Package pack judges how good a place is: among the nodes that could hold a replica, which one
// should, so that what comes later still fits.
//
// Place: layer 2, pure, below sched: it knows one node's free room and what is typically asked
// for, nothing of gangs, queues or topology.
//
// Promise: Score says ok exactly when the ask fits, and never names devices that lack the share;
// the same calls in the same order give the same scores, in integers, on every machine; a score
// changes only when its room or Version does.
//
// Enemies: devices stranded beside a CPU that is used up, shares that nothing fills up, scarce
// types spent on those who could go anywhere, results that hang on how ties are broken.
//
// The simple story: a free device is worth what the demand could make of it. For each kind of ask
// seen, count what of a node's free devices that kind could use, and weigh it by how often the
// kind comes and how few other places it has. That sum is the worth of a node, and a placement
// costs the worth it destroys. This is the fragmentation measure of FGD (Weng et al., ATC'23)
// with three changes, each of which the OpenB traces reward:
//
//   - A device filled in part is valued by what may still come beside the first ask (a recursion
//     over the seen shares), not as wholly usable.
//   - CPU counts by depth: a node whose CPU lasts for few of the asks its devices could hold is
//     worth less, before the CPU is gone.
//   - A kind that fits few nodes (one type, very many cores) weighs more on those.
//
// Equal worth goes to the fuller node.
package pack
