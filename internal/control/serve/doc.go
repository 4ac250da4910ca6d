// Package serve keeps inference services true: as many replicas of the newest revision answer as are wanted.
//
//	           ┌────────── start ──────────┐
//	Deploying ─┬─ one answers ──> Running ─┴─ stop ──> Stopped
//	           └─ all failed ───> Failed ──── stop ──────┘
//
// Place: layer 4; only the leader runs it. A service's replicas are work of their own (ServiceReplica): this package makes
// and ends them, work and its Steady judgement start them and start them again, and placement finds each a place. Where
// they answer is one object (ServiceEndpoints), which gateways watch.
//
// Promise:
//
//  1. A replica that answers is taken away only while as many others answer as are wanted.
//  2. It gets no more requests (DrainAt, endpoints) before it is told to end, and both are one commit.
//  3. Endpoints are written when they change, never for a heartbeat.
//  4. A revision whose replicas fail takes nothing away from the one before it.
//
// Enemies: an update that answers nobody for a moment, replicas that nobody wants any more, a crash between two writes,
// a replica that fails at once and is made again as fast as it fails.
package serve
