// Package record is a replica's folder on one machine: what is written there, in which order, and
// how it is read back after any crash. The host engine and the launcher meet only here.
//
// Place: layer 3, beside the engine port. Promise: a record is written whole (temporary file,
// fsync, rename, fsync of the folder) or not at all; the launcher holds Lock for life; records
// only ever appear. Enemies: pipes between server and launcher, pids without start time.
//
// The order of a life: the engine makes the folder (mkdir is the O_EXCL) and writes replica.json;
// the launcher takes lock, writes launcher.json; on go it writes go.json, then starts the user's
// processes and writes start.json; a later generation replaces go.json; at the end exit.json; when logs and outputs are handed over
// done.json. stop-EPOCH.json is the wish of that epoch's leader that it end.
package record
