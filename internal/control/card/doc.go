// Package card keeps the health of devices: it takes their readings and the kernel's log, obeys what operators order, has
// health judge, writes down what became of each device, and has closed ones tested when nothing stands on them.
//
// Place: layer 4; only the leader runs it. Promise: a device is closed by one write, which the planner follows: nothing new
// comes, what stands there is asked to save and leaves; it takes work again only after a test or an operator's word; a
// reading that changes nothing causes no write. Enemies: heartbeats in the store, two writers of one field, a test under work.
//
//	readings, kernel's log, orders ─▶ health.Decide ─▶ Node.status.devices, Node.status.failures
//	                                                      │
//	            placement drains what is closed ◀─────────┘
//
// Invariants:
//  1. status.devices and status.failures are written here only.
//  2. No device is tested while a placement names it.
//  3. One device at fault changes nothing for its neighbours.
package card
