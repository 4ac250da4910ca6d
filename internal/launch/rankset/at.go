package rankset

import (
	"encoding/binary"
	"io"
	"os"
	"strconv"

	"github.com/fermi-cluster/fermi/internal/launch/shm"
)

// Where a rank is stands in a file in memory, so that it may gather its reports of short steps: what a
// rank that was killed or hangs has not said is seen there.

// SeenIn is the folder of these files.
func (r *Set) SeenIn(memory shm.Slots) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.memory = memory
}

// unsee lets go of the files, which the ranks of the next generation may make anew, mu held.
func (r *Set) unsee() {
	for _, f := range r.pages {
		f.Close()
	}
	r.pages = map[int]*os.File{}
}

// glance looks where the ranks are, mu held.
func (r *Set) glance() {
	if r.memory.Folder == nil {
		return
	}
	r.see()
	for local := range r.at {
		page := r.pages[local]
		if page == nil {
			continue
		}
		generation, step, ok := readAt(page)
		if ok && generation == uint64(r.now.Number) && step < 1<<62 {
			r.at[local] = max(r.at[local], int64(step))
		}
	}
}

// see opens the files that were not there before, mu held.
func (r *Set) see() {
	var names []string
	var locals []int
	for local := range r.at {
		if r.pages[local] == nil && len(names) < maxPages {
			names, locals = append(names, "rank-"+strconv.Itoa(local)+".at"), append(locals, local)
		}
	}
	if len(names) == 0 {
		return
	}
	files, _ := r.memory.Folder.OpenAll(names, false)
	for i, f := range files {
		if f != nil {
			r.pages[locals[i]] = f
		}
	}
}

// maxPages are opened at once; there are never more ranks on a node than devices.
const maxPages = 64

// readAt reads what a rank wrote: anything may be there.
func readAt(f io.ReaderAt) (generation, step uint64, ok bool) {
	var raw [16]byte
	if n, _ := f.ReadAt(raw[:], 0); n < len(raw) {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint64(raw[:]), binary.LittleEndian.Uint64(raw[8:]), true
}
