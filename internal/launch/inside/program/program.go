// Package program carries the program of a replica's first process inside the binary, and lays it into
// a folder of the machine for the launchers there.
//
// Place: layer 4, part of launch, below setup, which gives it to its walls.
// Promise: it compiles without the program, and where that was not built in, or can't be laid down or run,
// the whole binary does the same, only slower. What runs is of the same sources as the launcher, whatever
// became of its file: the name says of which.
// Enemies: a binary made with a program of older sources: a test compares; a half-written file.
package program

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

//go:embed all:built
var built embed.FS

const (
	fileProgram = "built/inside"
	fileSources = "built/sources" // of which it was made
)

// In is the program in a folder that nobody but root can change, laid there if it is not; "": there is none.
func In(dir string) string {
	sources, err := built.ReadFile(fileSources)
	if err != nil {
		return ""
	}
	have, err := fs.Stat(built, fileProgram)
	if err != nil {
		return ""
	}
	file := filepath.Join(dir, "fermi-inside-"+runtime.GOARCH+"-"+strings.TrimSpace(string(sources)))
	if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() && info.Size() == have.Size() {
		return file
	}
	if lay(dir, file) != nil {
		return ""
	}
	return file
}

// lay writes it down; launchers that do so together lay the same.
func lay(dir, file string) error {
	data, err := built.ReadFile(fileProgram)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o755) // it becomes a tenant's process, which runs it once more
	}
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
