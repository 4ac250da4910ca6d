package ckpt

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
)

// A slot on its way to another machine: the header, the tree and the table, then the data in frames,
// each followed by its CRC-32C. The far end finds damage within a frame of where it happened, and
// checks the sums that the rank wrote besides; a copy is a slot, whole or none.
const frame = 4 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Size is what a state takes in memory.
func (h Header) Size() int64 { return slotData + int64(h.Data+h.Tree+h.Table) }

// Send writes the slot to w, checked as it is read. An error after the first byte leaves w with
// something that Receive refuses.
func (s *Slot) Send(w io.Writer) error {
	for _, part := range [][]byte{s.Header.pack(), s.Tree, s.sums} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	from, buf := stream{s: s}, make([]byte, min(frame, s.Header.Data)+4)
	for left := s.Header.Data; left > 0; {
		n := min(frame, left)
		if err := from.next(buf[:n]); err != nil {
			return err
		}
		binary.LittleEndian.PutUint32(buf[n:], crc32.Checksum(buf[:n], castagnoli))
		if _, err := w.Write(buf[:n+4]); err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// Receive makes a slot at path of what Send wrote. admit sees the header before any memory is taken,
// and may refuse it. What does not arrive whole leaves nothing behind.
func Receive(r io.Reader, path string, admit func(Header) error) (Header, error) {
	h, tree, sums, err := announced(r, admit)
	if err != nil {
		return Header{}, err
	}
	to, err := createSlot(path, h.Data, tree)
	if err != nil {
		return Header{}, err
	}
	defer to.close()
	if err := to.fill(r, h, tree, sums); err != nil {
		_ = os.Remove(path)
		return Header{}, err
	}
	return h, nil
}

// ReceiveInto is Receive into an open file; what does not arrive whole leaves an empty slot.
func ReceiveInto(r io.Reader, f *os.File, admit func(Header) error) (Header, error) {
	h, tree, sums, err := announced(r, admit)
	if err != nil {
		return Header{}, err
	}
	to, err := emptySlot(f, h.Data, tree)
	if err != nil {
		return Header{}, err
	}
	return h, to.fill(r, h, tree, sums)
}

// announced reads what comes before the data.
func announced(r io.Reader, admit func(Header) error) (h Header, tree, sums []byte, err error) {
	var raw [slotHeader]byte
	if _, err := io.ReadFull(r, raw[:]); err != nil {
		return h, nil, nil, slotFault(err)
	}
	h, err = unpackHeader(raw[:])
	if err == nil {
		err = admit(h)
	}
	if err != nil {
		return h, nil, nil, err
	}
	var rest bytes.Buffer // grows as it is read: a header's claim alone takes no memory
	if _, err := io.CopyN(&rest, r, int64(h.Tree+h.Table)); err != nil {
		return h, nil, nil, slotFault(err)
	}
	tree, sums = rest.Bytes()[:h.Tree], rest.Bytes()[h.Tree:]
	if crc32.ChecksumIEEE(tree) != h.treeCRC || crc32.ChecksumIEEE(sums) != h.tableCRC {
		return h, nil, nil, badSlot("its tree or table is damaged", "目录或校验表已损坏")
	}
	return h, tree, sums, nil
}

// fill takes the frames and, last, writes the header.
func (s *newSlot) fill(r io.Reader, h Header, tree, sums []byte) error {
	from := stream{s: &Slot{Header: h, sums: sums, src: &wire{r, s}}}
	buf := make([]byte, min(frame, h.Data)+4)
	for left := h.Data; left > 0; left -= min(frame, left) {
		if err := from.next(buf[:min(frame, left)]); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		at uint64
		b  []byte
	}{{h.Data, tree}, {h.Data + h.Tree, sums}} {
		if err := s.WriteAt(part.b, int64(part.at)); err != nil {
			return err
		}
	}
	_, err := s.f.WriteAt(h.pack(), 0)
	return slotFaultOrNil(err)
}

// wire gives a stream the frames in their order, and keeps them.
type wire struct {
	r    io.Reader
	keep *newSlot
}

// ReadAt takes the next frame; p has its length.
func (w *wire) ReadAt(p []byte, at int64) (int, error) {
	var sum [4]byte
	if n, err := io.ReadFull(w.r, p); err != nil {
		return n, err
	}
	if _, err := io.ReadFull(w.r, sum[:]); err != nil {
		return 0, err
	}
	if binary.LittleEndian.Uint32(sum[:]) != crc32.Checksum(p, castagnoli) {
		return 0, badSlot("it was damaged on its way", "传输途中损坏")
	}
	return len(p), w.keep.WriteAt(p, at-slotData)
}
