// Package history is the port to what is over: events, audit, usage, metric points and archived
// objects, as rows.
//
// Place: layer 3. Promise: what a method has returned nil for survives kill -9; every write is
// idempotent by its key, so that a controller may repeat it. Adapters run the same conformance
// suite (historytest). Enemies: live state kept here, O(all) scans, rows without bounds.
package history
