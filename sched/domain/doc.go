// Package domain is the tree of the nodes: zones, leaves and racks.
//
// Place: layer 2, under sched, which says what nodes there are. Promise: every domain is a range of nodes, and its
// children are a range of domains. Enemies: racks that span leaves, leaves that span racks, nodes with neither.
package domain
