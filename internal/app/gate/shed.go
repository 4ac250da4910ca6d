package gate

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// shed gives back the memory that only the start needed: garbage, and those pages of the program's file that were mapped
// for what ran once. A gateway is a small part of the program, and comes back for the pages that it uses.
func shed() {
	debug.FreeOSMemory()
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close() // only read
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		var from, to uintptr
		var rights string
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %4s", &from, &to, &rights); n != 3 || !strings.HasSuffix(lines.Text(), " "+self) || strings.Contains(rights, "w") {
			continue // what was written to is not in the file
		}
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED)
	}
}
