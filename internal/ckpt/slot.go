package ckpt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/ckpt/tensor"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/slot"
)

// The layout of an L0 slot: docs/reference/rank-protocol.md.
const (
	slotMagic             = slot.Magic
	slotCopied, slotWhole = slot.Copied, slot.Whole
	slotHeader, slotData  = slot.Header, slot.Data
	slotSum, slotRoom     = slot.Sum, slot.Room
)

// Header is what a whole slot says of itself; lengths in bytes.
type Header struct {
	Rank, World       uint32
	Generation, Step  uint64
	Data, Tree, Table uint64
	treeCRC, tableCRC uint32
}

func (h Header) pack() []byte {
	b := make([]byte, 0, slotHeader)
	b = append(b, slotMagic...)
	for _, v := range []uint32{slotWhole, h.Rank, h.World, 0} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	for _, v := range []uint64{h.Generation, h.Step, h.Data, h.Tree, h.Table} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint32(b, h.treeCRC)
	b = binary.LittleEndian.AppendUint32(b, h.tableCRC)
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// unpackHeader reads the header of a whole slot from outside: a rank's process wrote it.
func unpackHeader(b []byte) (Header, error) { return unpackIn(b, slotWhole) }

func unpackIn(b []byte, state uint32) (Header, error) {
	if len(b) < slotHeader {
		return Header{}, badSlot("it is shorter than a header", "短于头部")
	}
	le := binary.LittleEndian
	if string(b[:8]) != slotMagic || le.Uint32(b[8:]) != state || le.Uint32(b[20:]) != 0 ||
		le.Uint32(b[slotHeader-4:]) != crc32.ChecksumIEEE(b[:slotHeader-4]) {
		return Header{}, badSlot("it holds no whole state", "不包含完整状态")
	}
	h := Header{
		Rank: le.Uint32(b[12:]), World: le.Uint32(b[16:]),
		Generation: le.Uint64(b[24:]), Step: le.Uint64(b[32:]),
		Data: le.Uint64(b[40:]), Tree: le.Uint64(b[48:]), Table: le.Uint64(b[56:]),
		treeCRC: le.Uint32(b[64:]), tableCRC: le.Uint32(b[68:]),
	}
	if h.World == 0 || h.World > MaxWorld || h.Rank >= h.World || h.Step == 0 || h.Step > maxCount || h.Generation > maxCount ||
		h.Data > tensor.MaxData || h.Tree == 0 || h.Tree > MaxTree || h.Table != 4*((h.Data+slotSum-1)/slotSum) {
		return Header{}, badSlot("its header contradicts itself", "头部自相矛盾")
	}
	return h, nil
}

func badSlot(en, zh string) *fault.Error {
	return fault.New(fault.Invalid, "BadSlot", fault.Text{EN: "The slot cannot be read: " + en + ".", ZH: "无法读取槽：" + zh + "。"})
}

// Slot is the state of one rank in memory, open for reading. What it gives was checked against the
// sums that the rank wrote; the file itself may be changed by its rank at any time, so nothing of it
// is ever mapped, and no byte is looked at twice.
type Slot struct {
	Header Header
	Tree   []byte
	sums   []byte // nil: of files, which have none
	src    io.ReaderAt
	close  func() error
}

// OpenSlot reads and checks header, tree and table; the data is checked as it is read.
func OpenSlot(path string) (*Slot, error) {
	return ReadSlot(openSlotFile(path, os.O_RDONLY))
}

// ReadSlot is OpenSlot of a file that somebody else opened, or failed to. It is the slot's then, and closed where it is none.
func ReadSlot(f *os.File, err error) (*Slot, error) {
	if err != nil {
		return nil, slotFault(err)
	}
	s, err := readSlot(f)
	if err != nil {
		f.Close()
		return nil, slotFault(err)
	}
	s.close = f.Close
	return s, nil
}

func readSlot(src io.ReaderAt) (*Slot, error) {
	var raw [slotHeader]byte
	if _, err := src.ReadAt(raw[:], 0); err != nil {
		return nil, err
	}
	h, err := unpackHeader(raw[:])
	if err != nil {
		return nil, err
	}
	rest, err := readFull(src, slotData+int64(h.Data), int64(h.Tree+h.Table))
	if err != nil {
		return nil, err
	}
	return slotOver(h, rest, src)
}

// slotOver is a slot of whose bytes behind the data, tree and table, were read; the data comes from src.
func slotOver(h Header, rest []byte, src io.ReaderAt) (*Slot, error) {
	s := &Slot{Header: h, Tree: rest[:h.Tree:h.Tree], sums: rest[h.Tree:], src: src, close: func() error { return nil }}
	if crc32.ChecksumIEEE(s.Tree) != h.treeCRC || crc32.ChecksumIEEE(s.sums) != h.tableCRC {
		return nil, badSlot("its tree or table is damaged", "目录或校验表已损坏")
	}
	return s, nil
}

// readFull allocates as it reads, so that a header's claim alone takes no memory.
func readFull(src io.ReaderAt, at, n int64) ([]byte, error) {
	var b bytes.Buffer
	got, err := io.Copy(&b, io.NewSectionReader(src, at, n))
	if err == nil && got < n {
		err = io.ErrUnexpectedEOF
	}
	return b.Bytes(), err
}

// Close lets go of the file.
func (s *Slot) Close() error { return s.close() }

// noSlot is the reason where memory has none: that says nothing about what a tier has.
const noSlot = "NoSlot"

func slotFault(err error) error {
	var already *fault.Error
	switch {
	case errors.As(err, &already):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.NotFound, noSlot, fault.T("There is no slot.", "槽不存在。")).Because(err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return badSlot("it is shorter than it says", "短于其声明的长度").Because(err)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.ENOMEM):
		return fault.New(fault.Full, "NoMemory", fault.T("There is no memory for the state.", "没有足够的内存存放状态。")).Because(err)
	}
	return badSlot("the file could not be read or written", "文件读写失败").Because(err)
}

// stream reads the data from its start to its end and checks every stretch that has a sum.
type stream struct {
	s   *Slot
	at  uint64
	crc uint32
}

// next fills p with the bytes that follow. What it gave is only good once the stretch's end was
// reached: the caller reads to the end of the data before it counts on anything.
func (r *stream) next(p []byte) error {
	if r.at+uint64(len(p)) > r.s.Header.Data {
		return badSlot("its tree names bytes that are not there", "目录指向不存在的字节")
	}
	if err := r.s.readAt(p, r.at); err != nil {
		return err
	}
	for len(p) > 0 {
		n := min(uint64(len(p)), slotSum-r.at%slotSum)
		r.crc = crc32.Update(r.crc, crc32.IEEETable, p[:n])
		if err := r.on(n); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// pass counts bytes that somebody else read, by their sums: one ends wherever a stretch does, and the last with them.
func (r *stream) pass(length int, sums []uint32) error {
	for end := min(r.at+uint64(length), r.s.Header.Data); r.at < end; sums = sums[1:] {
		n := min(end-r.at, slotSum-r.at%slotSum)
		r.crc = joinCRC(r.crc, sums[0], n)
		if err := r.on(n); err != nil {
			return err
		}
	}
	return nil
}

// on goes on by n bytes, at most to the end of a stretch.
func (r *stream) on(n uint64) error {
	if r.at += n; r.at%slotSum != 0 && r.at != r.s.Header.Data {
		return nil
	}
	if at := (r.at - 1) / slotSum * 4; r.s.sums != nil && binary.LittleEndian.Uint32(r.s.sums[at:]) != r.crc {
		return badSlot("its data is damaged", "数据已损坏")
	}
	r.crc = 0
	return nil
}

// readAt fills p with the data from at on.
func (s *Slot) readAt(p []byte, at uint64) error {
	if n, err := s.src.ReadAt(p, slotData+int64(at)); n < len(p) {
		return slotFault(err)
	}
	return nil
}

// newSlot is a slot under change: its header is zero until seal.
type newSlot struct {
	f    *os.File
	data uint64
	tree []byte
}

// createSlot empties the slot at path and makes room for a state.
func createSlot(path string, data uint64, tree []byte) (*newSlot, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, slotFault(err)
	}
	s, err := emptySlot(f, data, tree)
	if err != nil {
		f.Close()
	}
	return s, err
}

// emptySlot is createSlot of an open file, which is closed with it.
func emptySlot(f *os.File, data uint64, tree []byte) (*newSlot, error) {
	need := slotData + int64(data) + int64(len(tree)) + 4*int64((data+slotSum-1)/slotSum)
	size := (need + slotRoom - 1) / slotRoom * slotRoom
	_, err := f.WriteAt(make([]byte, slotHeader), 0)
	if err == nil {
		// Allocated now: memory that is not there is an error here and no signal later.
		if err = unix.Fallocate(int(f.Fd()), 0, 0, size); errors.Is(err, unix.EOPNOTSUPP) {
			err = f.Truncate(size)
		}
	}
	if err != nil {
		return nil, slotFault(err)
	}
	return &newSlot{f: f, data: data, tree: tree}, nil
}

func (s *newSlot) WriteAt(p []byte, at int64) error {
	_, err := s.f.WriteAt(p, slotData+at)
	return slotFaultOrNil(err)
}

func slotFaultOrNil(err error) error {
	if err == nil {
		return nil
	}
	return slotFault(err)
}

// seal sums the data and writes the header, last.
func (s *newSlot) seal(h Header) error {
	table, err := sumsOf(s.f, s.data)
	if err != nil {
		return slotFault(err)
	}
	h.Data, h.Tree, h.Table = s.data, uint64(len(s.tree)), uint64(len(table))
	h.treeCRC, h.tableCRC = crc32.ChecksumIEEE(s.tree), crc32.ChecksumIEEE(table)
	if err := errors.Join(s.WriteAt(s.tree, int64(s.data)), s.WriteAt(table, int64(s.data)+int64(len(s.tree)))); err != nil {
		return err
	}
	_, err = s.f.WriteAt(h.pack(), 0)
	return slotFaultOrNil(err)
}

func (s *newSlot) close() error { return s.f.Close() }
