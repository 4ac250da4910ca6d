// Package sim is the simulator: it replays a trace, the past of a live cluster or its present
// with a change, through the very same planner and judgement that run it, on a virtual clock.
//
// Place: layer 6, an assembly like app. It feeds api objects to control/placement's Planner, which
// translates and decides as the controller does, and plays the rest of the world: time passes,
// tasks end, nodes fail and are repaired.
//
// Promise: the same trace, cluster, settings and seed give the same report, byte for byte. A
// simulated second costs nothing when nothing happens in it.
//
// Enemies: wall time, map order, knowledge that a live planner would not have (a task's true
// length is hidden from it until the task has ended).
package sim
