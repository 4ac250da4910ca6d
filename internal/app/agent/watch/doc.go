// Package watch is `fermi agent watch`: it looks after the accelerators of one node of a Kubernetes cluster, from a pod of a DaemonSet.
//
// Place: layer 6, assembly; it speaks to its cluster's API server alone, never to Fermi. Promise: cards that are at fault are said as the condition
// fermi.io/unwell of their own node, which Fermi's engine heeds like those of the clouds' own agents: no new work comes, what runs there saves and moves.
// Nothing is written while nothing changes. What was counted or logged once stands until the node is started again or an operator says that it was mended
// (the annotation fermi.io/mended, a time), also when this agent is replaced meanwhile. Enemies: a right that is not needed, a write for each reading, a
// fault that is forgotten because a pod was.
package watch
