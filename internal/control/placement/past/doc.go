// Package past knows what was seen of nodes and of the work on them: faults that speak against a node, and versions of datasets and models that it has.
//
// Place: layer 4, below the planner's model, whose owner locks what is here. Promise: a fault is counted once and for a day; a version only where
// processes that read it ran. Enemies: tasks that tell the same again with each change, and work without end.
package past
