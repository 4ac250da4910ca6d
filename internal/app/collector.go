package app

import (
	"os"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"
)

// collectLater lets the collector wait while a server reads all there is, of which it keeps most:
// until the heap has four times its size, but not beyond a quarter of the machine. The answer ends
// that. Who sets GOGC or GOMEMLIMIT knows better.
func collectLater() (end func()) {
	var info unix.Sysinfo_t
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" || unix.Sysinfo(&info) != nil {
		return func() {}
	}
	debug.SetGCPercent(300)
	limit := debug.SetMemoryLimit(int64(info.Totalram) * int64(info.Unit) / 4)
	return sync.OnceFunc(func() {
		CollectSeldom()
		debug.SetMemoryLimit(limit)
	})
}

// CollectSeldom is how a server collects when it has read all: half as often as Go would by itself. It has
// several goroutines for each launcher, whose stacks are most of the work.
func CollectSeldom() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
}
