// Package room knows, for each wish of a replica that was seen lately, how many of them each node and
// each domain takes, and which node is the best for some.
//
// Place: layer 2, under sched; it knows nodes by their place in the topology, and asks its owner what
// one of them takes. Promise: what is read is as a scan of all nodes would say; a change costs nothing
// to the wishes that nobody asks about; memory is bounded.
//
// Enemies: more kinds of wishes than there is memory for, a backlog that asks about all of them in a
// full cluster, looks at what would be if somebody went.
//
// The simple story: an Index has a count and a score for each node, sums by domain, and the winner among
// the nodes for a number of replicas. Nodes that changed are in a log, which an index reads when it is
// asked again. A change has a stamp: a node with the stamp that the index saw is as it was. After a look at what would
// be (Begin, End) nodes get their old stamps back and the log forgets it, so that who knew them need not look again. Of
// each node a gist is kept, its untouched devices and its freest: in a full cluster nearly all nodes are
// refused by that alone, so a wish that nobody asked about for long is soon known again.
package room
