// Package web carries the console, the pages people see in a browser, inside the binary.
//
// Place: beside the doors. internal/app hands its files to internal/server, which serves them and
// knows nothing of how they were made; their sources are the TypeScript in this folder.
//
// Promise: it compiles without Node. Where the console was not built, Files has no index.html and
// the server says so in a sentence.
//
// Enemies: a checkout without npm; files of an older build, which is why the folder is emptied
// before each one.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Files are the built console: index.html, favicon.svg and assets/.
func Files() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // "dist" is a valid path
	}
	return sub
}
