package launch

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Where a rank is stands in a file in memory, so that it may gather its reports of short steps: what a
// rank that was killed or hangs has not said is seen there.

// seenIn is the folder of these files.
func (r *ranks) seenIn(memory string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.memory = memory
}

// glance looks where the ranks are, mu held.
func (r *ranks) glance() {
	if r.memory == "" {
		return
	}
	for local := range r.at {
		generation, step, ok := readAt(filepath.Join(r.memory, "rank-"+strconv.Itoa(local)+".at"))
		if ok && generation == uint64(r.now.Number) && step < 1<<62 {
			r.at[local] = max(r.at[local], int64(step))
		}
	}
}

// readAt reads what a rank wrote: anything may be there.
func readAt(path string) (generation, step uint64, ok bool) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, 0, false
	}
	defer f.Close()
	var raw [16]byte
	if n, _ := f.ReadAt(raw[:], 0); n < len(raw) {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint64(raw[:]), binary.LittleEndian.Uint64(raw[8:]), true
}
