package process

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
)

// Bounds of what is looked at: processes with more than that have their files looked at in part, and all is false.
const (
	maxOpenFiles = 65536 // of all processes together
	maxMaps      = 32 << 20
)

// Writes are the inodes of the files that processes of the generation have open for writing, or have mapped so; all: every
// process could be asked. The kernel is asked about descriptors; no file of the user's is touched.
func (t *Tree) Writes() (open map[uint64]bool, all bool) {
	open, all = map[uint64]bool{}, true
	left := maxOpenFiles
	for _, m := range t.Members() {
		dir := "/proc/" + strconv.Itoa(m.Proc.PID)
		if !writesOf(dir+"/fdinfo", open, &left) || !mappedBy(dir+"/maps", open) {
			all = all && !m.Proc.Alive() // one that has ended meanwhile has nothing open
		}
	}
	return open, all && left > 0
}

// writesOf reads the descriptors of one process.
func writesOf(dir string, open map[uint64]bool, left *int) bool {
	d, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer d.Close()
	names, err := d.Readdirnames(max(*left, 1))
	if err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	*left -= len(names)
	for _, name := range names {
		raw, err := os.ReadFile(dir + "/" + name)
		if err != nil {
			continue // it was closed
		}
		inode, writes, ok := descriptor(raw)
		if !ok {
			return false // a kernel that does not tell
		}
		if writes {
			open[inode] = true
		}
	}
	return true
}

// descriptor reads what the kernel says of one: the inode, and whether it is open for writing.
func descriptor(raw []byte) (inode uint64, writes, ok bool) {
	for line := range bytes.Lines(raw) {
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found {
			continue
		}
		value = bytes.TrimSpace(value)
		switch string(name) {
		case "flags":
			flags, err := strconv.ParseUint(string(value), 8, 64)
			if err != nil {
				return 0, false, false
			}
			writes = flags&3 != 0 // O_WRONLY, O_RDWR
		case "ino":
			var err error
			if inode, err = strconv.ParseUint(string(value), 10, 64); err != nil {
				return 0, false, false
			}
			ok = true
		}
	}
	return inode, writes, ok
}

// mappedBy reads which files a process has mapped for writing and shared.
func mappedBy(file string, open map[uint64]bool) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxMaps))
	if err != nil || len(raw) == maxMaps {
		return false
	}
	for line := range bytes.Lines(raw) { // 7f…-7f… rw-s 00000000 fe:00 1234 /path
		fields := bytes.Fields(line)
		if len(fields) < 5 || len(fields[1]) != 4 || fields[1][1] != 'w' || fields[1][3] != 's' {
			continue
		}
		if inode, err := strconv.ParseUint(string(fields[4]), 10, 64); err == nil && inode != 0 {
			open[inode] = true
		}
	}
	return true
}
