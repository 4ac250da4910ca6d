package sample

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	layout "github.com/fermi-cluster/fermi/internal/slot"
)

// A slot is a file in the launcher's memory with one whole state in it, or none. It has the format
// of the Python SDK's: a header of 4 KiB, the data, a JSON tree (here: what the data is), and the
// CRC-32 of each 8 MiB of the data. The header is written last, and wiped first.
const (
	slotCount  = 3 // where the launcher does not say
	slotMost   = 8
	slotFields = layout.Header - 4 // before the header's own CRC
)

// slotTree says that the data is one value: bytes.
func slotTree(data []byte) []byte { return fmt.Appendf(nil, `{"y":[0,%d]}`, len(data)) }

type slot struct {
	f    *os.File
	step int64 // 0: empty
}

// slots are those of one rank. Nil keeps nothing.
type slots struct {
	place Place
	list  []*slot
}

// openSlots finds what an earlier process of this rank left.
func openSlots(p Place) (*slots, error) {
	if p.Memory == "" {
		return nil, nil
	}
	s := &slots{place: p, list: make([]*slot, min(max(p.Slots, slotCount), slotMost))}
	for i := range s.list {
		f, err := os.OpenFile(filepath.Join(p.Memory, fmt.Sprintf("rank-%d.%d", p.Local, i)), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		s.list[i] = &slot{f: f}
		if step, _, err := s.list[i].read(); err == nil {
			s.list[i].step = step
		}
	}
	return s, nil
}

// held are the steps that are there whole.
func (s *slots) held() []int64 {
	out := []int64{}
	if s != nil {
		for _, slot := range s.list {
			if slot.step > 0 {
				out = append(out, slot.step)
			}
		}
	}
	slices.Sort(out)
	return out
}

// restore gives the state of the step and wipes what came after it: that is of a run that was not.
func (s *slots) restore(step int64) (data []byte, err error) {
	err = fmt.Errorf("step %d is not in memory", step)
	for _, slot := range s.list {
		switch {
		case slot.step == step && step > 0:
			_, data, err = slot.read()
		case slot.step > step:
			if err := slot.wipe(); err != nil {
				return nil, err
			}
		}
	}
	if step == 0 {
		return nil, nil
	}
	return data, err
}

// save keeps data as the state after step, in a slot that nobody can need any more: an empty one, or
// one older than what every rank holds and that the launcher does not read. false: there is none now.
func (s *slots) save(step int64, m marks, data []byte) (bool, error) {
	if s == nil {
		return false, nil
	}
	for _, slot := range s.list {
		if slot.free(m) {
			return true, slot.write(s.place, step, data)
		}
	}
	return false, nil
}

// room says whether a save would find a slot.
func (s *slots) room(m marks) bool {
	return s != nil && slices.ContainsFunc(s.list, func(slot *slot) bool { return slot.free(m) })
}

func (s *slot) free(m marks) bool {
	return s.step == 0 || s.step < m.watermark && s.step != m.keep && !slices.Contains(m.pinned, s.step)
}

func (s *slot) wipe() error {
	s.step = 0
	_, err := s.f.WriteAt(make([]byte, slotFields+4), 0)
	return err
}

func (s *slot) write(p Place, step int64, data []byte) error {
	if err := s.wipe(); err != nil {
		return err
	}
	sums, tree := chunkSums(data), slotTree(data)
	body := slices.Concat(data, tree, sums)
	if _, err := s.f.WriteAt(body, layout.Data); err != nil {
		return err
	}
	h := []byte(layout.Magic)
	for _, n := range []uint32{layout.Whole, uint32(p.Rank), uint32(p.World), 0} {
		h = binary.LittleEndian.AppendUint32(h, n)
	}
	for _, n := range []uint64{uint64(p.Generation), uint64(step), uint64(len(data)), uint64(len(tree)), uint64(len(sums))} {
		h = binary.LittleEndian.AppendUint64(h, n)
	}
	h = binary.LittleEndian.AppendUint32(h, crc32.ChecksumIEEE(tree))
	h = binary.LittleEndian.AppendUint32(h, crc32.ChecksumIEEE(sums))
	h = binary.LittleEndian.AppendUint32(h, crc32.ChecksumIEEE(h))
	_, err := s.f.WriteAt(h, 0)
	if err == nil {
		s.step = step
	}
	return err
}

func chunkSums(data []byte) []byte {
	var out []byte
	for part := range slices.Chunk(data, layout.Sum) {
		out = binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(part))
	}
	return out
}

var errNoSlot = errors.New("no whole state")

// read verifies every byte.
func (s *slot) read() (step int64, data []byte, err error) {
	all, err := io.ReadAll(io.NewSectionReader(s.f, 0, 1<<40))
	if err != nil {
		return 0, nil, err
	}
	return parseSlot(all)
}

// parseSlot does not ask whose rank it was: all ranks have the same state.
func parseSlot(all []byte) (step int64, data []byte, err error) {
	if len(all) < layout.Data || crc32.ChecksumIEEE(all[:slotFields]) != binary.LittleEndian.Uint32(all[slotFields:]) || string(all[:8]) != layout.Magic {
		return 0, nil, errNoSlot
	}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(all[8+4*i:]) }
	long := func(i int) uint64 { return binary.LittleEndian.Uint64(all[24+8*i:]) }
	step, body := int64(long(1)), all[layout.Data:]
	n, tree, table := long(2), long(3), long(4)
	if word(0) != layout.Whole || step <= 0 || n > uint64(len(body)) || tree > uint64(len(body))-n || table > uint64(len(body))-n-tree {
		return 0, nil, errNoSlot
	}
	data = body[:n]
	treeBytes, sums := body[n:n+tree], body[n+tree:n+tree+table]
	last := binary.LittleEndian.Uint32
	if last(all[64:]) != crc32.ChecksumIEEE(treeBytes) || last(all[68:]) != crc32.ChecksumIEEE(sums) || string(sums) != string(chunkSums(data)) {
		return 0, nil, errNoSlot
	}
	return step, data, nil
}
