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

// sight is what is seen in these files. Who has it locks it.
type sight struct {
	memory shm.Slots        // the folder of that, and of what they saved
	pages  map[int]*os.File // what was opened of it in this generation
	at     []int64          // the newest step each rank was seen at: reports may be on their way
}

func newSight(ranks int) sight { return sight{pages: map[int]*os.File{}, at: make([]int64, ranks)} }

// begin lets go of the files, which the ranks of the next generation may make anew.
func (s *sight) begin(restore int64) {
	for _, f := range s.pages {
		f.Close()
	}
	s.pages = map[int]*os.File{}
	for i := range s.at {
		s.at[i] = restore
	}
}

// glance looks where the ranks of a generation are.
func (s *sight) glance(number int64) {
	if s.memory.Folder == nil {
		return
	}
	s.open()
	for local := range s.at {
		page := s.pages[local]
		if page == nil {
			continue
		}
		generation, step, ok := readAt(page)
		if ok && generation == uint64(number) && step < 1<<62 {
			s.at[local] = max(s.at[local], int64(step))
		}
	}
}

// open opens the files that were not there before.
func (s *sight) open() {
	var names []string
	var locals []int
	for local := range s.at {
		if s.pages[local] == nil && len(names) < maxPages {
			names, locals = append(names, "rank-"+strconv.Itoa(local)+".at"), append(locals, local)
		}
	}
	if len(names) == 0 {
		return
	}
	files, _ := s.memory.Folder.OpenAll(names, false)
	for i, f := range files {
		if f != nil {
			s.pages[locals[i]] = f
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
