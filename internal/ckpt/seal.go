package ckpt

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// sumPiece is read at once for a sum: it is still in the processor's cache then.
const sumPiece = 256 << 10

// SealSlot sums the data that a rank has copied into a slot, and makes it whole. What its rank changes meanwhile is no
// danger: the sums are of other bytes then, and are found wrong.
func SealSlot(path string, step uint64) error {
	f, err := openSlotFile(path, os.O_RDWR)
	if err != nil {
		return slotFault(err)
	}
	defer f.Close()
	return Seal(f, step)
}

// Seal is SealSlot of an open file.
func Seal(f *os.File, step uint64) error {
	var raw [slotHeader]byte
	if _, err := f.ReadAt(raw[:], 0); err != nil {
		return slotFault(err)
	}
	h, err := unpackIn(raw[:], slotCopied)
	if err != nil {
		return err
	}
	if h.Step != step {
		return badSlot("it holds another step", "保存的是另一步")
	}
	table, err := sumsOf(f, h.Data)
	if err != nil {
		return slotFault(err)
	}
	if _, err := f.WriteAt(table, slotData+int64(h.Data+h.Tree)); err != nil {
		return slotFault(err)
	}
	h.tableCRC = crc32.ChecksumIEEE(table)
	var now [slotHeader]byte
	if _, err := f.ReadAt(now[:], 0); err != nil || now != raw {
		return badSlot("it was given up", "已被放弃") // its rank, or what came after it, uses it for something else
	}
	_, err = f.WriteAt(h.pack(), 0)
	return slotFaultOrNil(err)
}

// CheckSlot reads every byte of a slot that holds this step, so many stretches at a time. One that is empty, or holds another,
// is none of its business.
func CheckSlot(path string, step uint64, atOnce int) error {
	f, err := openSlotFile(path, os.O_RDONLY)
	if err != nil {
		return nil
	}
	defer f.Close()
	return Check(f, step, atOnce)
}

// Check is CheckSlot of an open file.
func Check(f *os.File, step uint64, atOnce int) error {
	s, err := readSlot(f)
	if err != nil {
		if h, herr := headerOf(f); herr != nil || h.Step != step {
			return nil
		}
		return slotFault(err)
	}
	if s.Header.Step != step {
		return nil
	}
	return s.verify(atOnce)
}

// verify reads all data and compares the sums, each of which is of a stretch of its own.
func (s *Slot) verify(atOnce int) error {
	stretches := (s.Header.Data + slotSum - 1) / slotSum
	each := max((stretches+uint64(atOnce)-1)/uint64(atOnce), 1) * slotSum
	var g errgroup.Group
	for from := uint64(0); from < s.Header.Data; from += each {
		g.Go(func() error {
			r, end := stream{s: s, at: from}, min(from+each, s.Header.Data)
			buf := make([]byte, min(sumPiece, end-from))
			for r.at < end {
				if err := r.next(buf[:min(uint64(len(buf)), end-r.at)]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// WipeSlot empties a slot.
func WipeSlot(path string) error {
	f, err := openSlotFile(path, os.O_WRONLY)
	if err != nil {
		return slotFault(err)
	}
	return slotFaultOrNil(errors.Join(Wipe(f), f.Close()))
}

// Wipe is WipeSlot of an open file.
func Wipe(f *os.File) error {
	_, err := f.WriteAt(make([]byte, slotHeader), 0)
	return slotFaultOrNil(err)
}

func headerOf(f *os.File) (Header, error) {
	var raw [slotHeader]byte
	if _, err := f.ReadAt(raw[:], 0); err != nil {
		return Header{}, err
	}
	return unpackHeader(raw[:])
}

// openSlotFile opens what may be anything: a rank made it.
func openSlotFile(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, how|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = badSlot("it is no file", "不是文件")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sumsOf is the table of a slot's data.
func sumsOf(f *os.File, data uint64) ([]byte, error) {
	var table []byte
	buf := make([]byte, min(sumPiece, data))
	for at := uint64(0); at < data; {
		crc, end := uint32(0), min(at+slotSum, data)
		for at < end {
			p := buf[:min(uint64(len(buf)), end-at)]
			if _, err := f.ReadAt(p, slotData+int64(at)); err != nil {
				return nil, err
			}
			crc = crc32.Update(crc, crc32.IEEETable, p)
			at += uint64(len(p))
		}
		table = binary.LittleEndian.AppendUint32(table, crc)
	}
	return table, nil
}
