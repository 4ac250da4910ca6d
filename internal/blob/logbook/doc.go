// Package logbook keeps the logs of tasks: one byte stream per replica, in compressed chunks.
//
// Place: layer 3, on top of blob. A launcher spools its log on its own disk and sends it by
// offset. The book holds the newest part in memory, where readers see it at once, and commits
// it as chunks; what is committed is durable, and the launcher may drop it from its spool. After
// a crash the launcher asks where to go on, and sends the rest again.
//
//	launcher's spool   [=====================================)
//	chunks in blob     [=======)[=======)[====)                 durable
//	blocks in memory                           [==][==][=)      end
//
// A chunk is a zstd file of frames of at most 32 KiB of whole lines, each behind a skippable frame
// with its lengths: any zstd tool reads it, and a reader merging a thousand replicas holds one
// frame of each. Its key, logs/<task>/<replica>/<start>-<length>.zst in hexadecimal, sorts by offset.
//
// Promise: readers get each line exactly once and in order, whatever chunks roll over below
// them; a slow reader never holds up Append; memory is bounded for the whole book.
//
// Enemies: two servers committing the same bytes (chunks may overlap; the bytes are the same,
// and readers take each once), damaged chunks (a line says which and how much), lines that do
// not parse (shown as they are), unbounded buffers.
package logbook
