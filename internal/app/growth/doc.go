// Package growth asks the autoscalers of clusters for nodes, on the leader: for what waits because no node has room.
//
// Place: layer 6, part of the assembly: it ties the planner's reasons to placeholders in clusters. Promise: who waits for room, and may be in a zone that grows, is shown
// to its autoscaler as a whole gang, the oldest first; who waits for anything else is not; what was asked for and is wanted no more is taken back. Where a zone
// grows, nothing is refused because the cluster is too small now. Enemies: a backlog that asks for more nodes than it could ever pay, placeholders that nobody
// takes away.
package growth
