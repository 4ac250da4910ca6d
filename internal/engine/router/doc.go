// Package router is several engines as one: each zone names its engine, and a replica's is that of its zone.
//
// Place: layer 3, an engine.Adapter over others; only construction knows which. Promise: a replica is started by one engine
// only; what the engines say comes as one feed; an engine that has not found its replicas yet, or has not listed its nodes, makes
// the whole not ready, so that nothing is concluded from what is missing. Enemies: a replica that two engines start.
package router
