package gate

import (
	"bufio"
	"debug/elf"
	"fmt"
	"io"
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
	program, err := elf.Open("/proc/self/exe")
	if err != nil {
		return
	}
	defer program.Close() // only read
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for _, s := range untouched(maps, self, program) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, s.from, s.to-s.from, unix.MADV_DONTNEED)
	}
}

type span struct{ from, to uintptr }

// untouched are the mappings of the program's file that nobody can have written to. That a mapping is read-only says nothing: the loader writes
// addresses into a part of the program's data, and protects it then.
func untouched(maps io.Reader, self string, program *elf.File) (out []span) {
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		var s span
		var rights string
		var offset uint64
		n, _ := fmt.Sscanf(lines.Text(), "%x-%x %4s %x", &s.from, &s.to, &rights, &offset)
		if n != 4 || !strings.HasSuffix(lines.Text(), " "+self) || strings.Contains(rights, "w") {
			continue
		}
		if size := before(program, offset, offset+uint64(s.to-s.from)) - offset; size > 0 {
			out = append(out, span{s.from, s.from + uintptr(size)})
		}
	}
	return out
}

// before is where, from a place of the file on, the first page is that belongs to what is loaded to be written to; to where none does.
func before(program *elf.File, from, to uint64) uint64 {
	page := uint64(os.Getpagesize())
	for _, p := range program.Progs {
		if first := p.Off / page * page; p.Type == elf.PT_LOAD && p.Flags&elf.PF_W != 0 && from < p.Off+p.Filesz && first < to {
			to = max(from, first)
		}
	}
	return to
}
