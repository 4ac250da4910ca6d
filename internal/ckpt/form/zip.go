package form

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// What torch.save, Keras and NumPy write are zips: the directory of what is in them comes last, and behind it a
// record of where it begins. A zip that was cut off has no such record; one that is being written over has none that fits.

// directory is where the list of what is in a zip lies.
type directory struct{ at, size uint64 }

const (
	endSize     = 22
	end64Size   = 56
	locatorSize = 20
)

// zip says whether the end of a zip is there and fits its length.
func (e *entry) zip(f File) Verdict {
	d, v := e.directory(f)
	if v != Whole {
		return v
	}
	if d.size == 0 {
		return Whole // it is empty
	}
	first, err := e.part(f, int64(d.at), 4)
	if err != nil {
		return Unknown
	}
	if !bytes.Equal(first, []byte("PK\x01\x02")) {
		return Partial
	}
	return Whole
}

func (e *entry) directory(f File) (directory, Verdict) {
	if f.Bytes < endSize {
		return directory{}, Partial
	}
	tail, err := e.tail(f, min(f.Bytes, maxEnd))
	if err != nil {
		return directory{}, Unknown
	}
	from := f.Bytes - int64(len(tail))
	for i := len(tail) - endSize; i >= 0; i-- {
		if !bytes.Equal(tail[i:i+4], []byte("PK\x05\x06")) || int(binary.LittleEndian.Uint16(tail[i+20:])) != len(tail)-i-endSize {
			continue
		}
		d := directory{uint64(binary.LittleEndian.Uint32(tail[i+16:])), uint64(binary.LittleEndian.Uint32(tail[i+12:]))}
		end := uint64(from) + uint64(i) // where the directory must end
		if d.at == 0xffffffff || d.size == 0xffffffff || binary.LittleEndian.Uint16(tail[i+10:]) == 0xffff {
			if d, end, err = e.directory64(f, int64(end)); err != nil {
				return d, Partial
			}
		}
		if d.at > end || d.size > end-d.at || d.at+d.size != end && !e.gap64(f, d, end) {
			return d, Partial
		}
		return d, Whole
	}
	return directory{}, Partial
}

// gap64 says that between directory and end lie the records of a zip64 that its writer made although it did not need them.
func (e *entry) gap64(f File, d directory, end uint64) bool {
	if end-d.at-d.size != end64Size+locatorSize {
		return false
	}
	sign, err := e.part(f, int64(d.at+d.size), 4)
	return err == nil && bytes.Equal(sign, []byte("PK\x06\x06"))
}

type cutZip struct{}

func (cutZip) Error() string { return "the end of the zip does not fit" }

// directory64 is the one of a large zip, whose end record lies at end; the directory must end where the large record begins.
func (e *entry) directory64(f File, end int64) (directory, uint64, error) {
	locator, err := e.part(f, end-locatorSize, locatorSize)
	if err != nil || !bytes.Equal(locator[:4], []byte("PK\x06\x07")) {
		return directory{}, 0, cutZip{}
	}
	at := binary.LittleEndian.Uint64(locator[8:])
	if at > uint64(f.Bytes) {
		return directory{}, 0, cutZip{}
	}
	rec, err := e.part(f, int64(at), end64Size)
	if err != nil || !bytes.Equal(rec[:4], []byte("PK\x06\x06")) {
		return directory{}, 0, cutZip{}
	}
	return directory{binary.LittleEndian.Uint64(rec[48:]), binary.LittleEndian.Uint64(rec[40:])}, at, nil
}

// Bounds of what is read to find a step.
const (
	maxDirectory = 1 << 20
	maxPickle    = 64 << 10
)

// lightningStep is the global_step of a Lightning checkpoint, read from the beginning of its pickle; 0: not found there. Nothing is run.
func (e *entry) lightningStep(f File) uint64 {
	d, v := e.directory(f)
	if v != Whole {
		return 0
	}
	list, err := e.part(f, int64(d.at), int64(min(d.size, maxDirectory)))
	if err != nil {
		return 0
	}
	for len(list) >= 46 && bytes.Equal(list[:4], []byte("PK\x01\x02")) {
		method, size := binary.LittleEndian.Uint16(list[10:]), binary.LittleEndian.Uint32(list[20:])
		name, extra, comment := int(binary.LittleEndian.Uint16(list[28:])), int(binary.LittleEndian.Uint16(list[30:])), int(binary.LittleEndian.Uint16(list[32:]))
		at := binary.LittleEndian.Uint32(list[42:])
		if len(list) < 46+name+extra+comment {
			return 0
		}
		if method == 0 && at != 0xffffffff && strings.HasSuffix(string(list[46:46+name]), "/data.pkl") {
			n := min(int64(size), maxPickle)
			raw, err := e.part(f, int64(at), min(n+30+4096, f.Bytes-int64(at)))
			if err != nil {
				return 0
			}
			return stepIn(raw)
		}
		list = list[46+name+extra+comment:]
	}
	return 0
}

// stepIn finds the number that follows the word global_step in a pickle: the word, perhaps a note of it, and a whole number.
func stepIn(raw []byte) uint64 {
	for _, word := range [][]byte{[]byte("X\x0b\x00\x00\x00global_step"), []byte("\x8c\x0bglobal_step")} {
		i := bytes.Index(raw, word)
		if i < 0 {
			continue
		}
		rest := raw[i+len(word):]
		switch { // the note
		case len(rest) > 1 && rest[0] == 'q':
			rest = rest[2:]
		case len(rest) > 4 && rest[0] == 'r':
			rest = rest[5:]
		case len(rest) > 0 && rest[0] == 0x94:
			rest = rest[1:]
		}
		switch {
		case len(rest) > 1 && rest[0] == 'K':
			return uint64(rest[1])
		case len(rest) > 2 && rest[0] == 'M':
			return uint64(binary.LittleEndian.Uint16(rest[1:]))
		case len(rest) > 4 && rest[0] == 'J':
			if n := int32(binary.LittleEndian.Uint32(rest[1:])); n > 0 {
				return uint64(n)
			}
		}
	}
	return 0
}
