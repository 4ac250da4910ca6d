// Package engine is the port to what starts and stops replicas on nodes.
//
// Place: layer 3. Promise: a replica has a deterministic name and is created only if absent;
// every call may be repeated; what happened to a replica is told again after a restart, none is
// missed. Enemies: a second start, a lost exit, an engine that judges.
package engine
