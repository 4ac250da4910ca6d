// Package tenant gives every project its uid on the machines that keep projects apart.
//
// Place: layer 4; only the leader asks it, when a project's first replica starts.
// Promise: a project has one uid for life, in its status; no two projects have the same, and a
// deleted project's is not given to another: files on disks we don't know may still be its.
// Enemies: two leaders (every write is fenced), a cache that lags behind a predecessor's gift, a
// number that was given and then lost in a crash.
//
// The number is burnt on disk first (Config.Burn) and written into the project then: a crash in
// between wastes one. After a restore into an empty folder nothing is burnt, and the projects'
// own numbers keep the next ones apart.
package tenant
