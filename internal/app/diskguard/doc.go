// Package diskguard looks after the disk that the data folder is on: what would lock everybody out is seen, said and ended.
//
// Place: layer 6, below the assembly; it knows the folder of replicas and the ballast of the data folder.
// Promise: a disk without room or names, and one that fails, is known within a second and has one name for readyz, why and
// who started the server. While there is too little left to live on, the replica that holds most is told to end, one after
// the other, and then ballast is thrown away; it is taken on again when there is plenty of room. Nothing here needs room.
// Enemies: a task that writes as fast as the disk takes it; one that makes millions of files; files without a name; a
// folder of somebody else on the same disk, for which no task is ended.
package diskguard
