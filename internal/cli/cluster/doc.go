// Package cluster has the commands of operators: zones, nodes, queues, usage, audit and backups.
//
// Place: layer 5, on object. Promise: what a drain or an outage would do is shown before it is done; a backup is whole
// or absent. Enemies: work that stands on a node that goes away, a formula in a spreadsheet cell.
package cluster
