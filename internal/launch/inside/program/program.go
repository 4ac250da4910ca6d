// Package program carries the program of a replica's first process inside the binary, and lays it out
// in memory where a launcher runs it.
//
// Place: layer 4, part of launch, below setup, which gives it to its walls.
// Promise: it compiles without the program, and where that was not built in, or can't be run from memory,
// the whole binary does the same, only slower. What runs is of the same build as the launcher, whatever
// became of its file.
// Enemies: a binary made with a program of older sources: a test compares; writers to the program in
// memory: it is sealed.
package program

import (
	"embed"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

//go:embed all:built
var built embed.FS

const (
	fileProgram = "built/inside"
	fileSources = "built/sources" // of which it was made
)

// Path is where it can be run by children of this process; "" where it can't.
var Path = sync.OnceValue(func() string {
	data, err := built.ReadFile(fileProgram)
	if err != nil {
		return ""
	}
	path, _ := memory(data)
	return path
})

// atLeast is above the descriptors that a child is started with, which are put in their places before it is run.
const atLeast = 100

// memory is the path of a sealed file in memory; it is there as long as we are.
func memory(data []byte) (string, error) {
	fd, err := unix.MemfdCreate("fermi-inside", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if err == unix.EINVAL { // a kernel before 6.3, where every file in memory may be run
		fd, err = unix.MemfdCreate("fermi-inside", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err != nil {
			return "", err
		}
		data = data[n:]
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE); err != nil {
		return "", err
	}
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, atLeast)
	if err != nil {
		return "", err
	}
	return "/proc/self/fd/" + strconv.Itoa(high), nil
}
