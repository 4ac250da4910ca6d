// Package where is the words for where work would rather stand: how it lies in racks, how many of
// its replicas stand in which zone, and what counts between zones that all have room.
//
// Place: layer 1, below the vocabulary of tasks and queues. Promise: what is absent says nothing. Enemies: a wish that is taken for a rule.
package where

// MostReplicas is how many a gang has at most.
const MostReplicas = 16384
