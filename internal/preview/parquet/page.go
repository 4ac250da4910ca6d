package parquet

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// errShown is a column that can't be shown.
var errShown = errors.New("parquet: it can't be shown")

// pages reads pages, as many as one look may.
type pages struct {
	r      io.ReadSeeker
	size   int64 // where data ends
	bytes  int
	left   int
	failed error // of the reader
}

// The kinds of pages.
const (
	pageData   = 0
	pageDict   = 2
	pageDataV2 = 3
)

// page is one, unpacked.
type page struct {
	kind       int
	values     int
	encoding   int
	reps, defs []byte // of the second version, apart
	body       []byte
	next       int64 // where the next one begins
}

// pageHead is what stands before a page.
type pageHead struct {
	kind, unpacked, packed int
	values, encoding       int
	defBytes, repBytes     int
	plain                  bool // the second version's values are not packed
}

func readPageHead(d *thrift) pageHead {
	h := pageHead{kind: -1}
	d.fields(func(id int, kind byte) bool {
		if to := map[int]*int{1: &h.kind, 2: &h.unpacked, 3: &h.packed}[id]; to != nil && kind == typeI32 {
			*to = int(int32(d.number()))
			return true
		}
		var of map[int]*int
		switch id {
		case 5, 7:
			of = map[int]*int{1: &h.values, 2: &h.encoding}
		case 8:
			of = map[int]*int{1: &h.values, 4: &h.encoding, 5: &h.defBytes, 6: &h.repBytes}
		}
		if of == nil || kind != typeStruct {
			return false
		}
		d.fields(func(field int, kind byte) bool {
			if id == 8 && field == 7 {
				h.plain = kind == typeFalse
				return kind == typeFalse || kind == typeTrue
			}
			to := of[field]
			if to == nil || kind != typeI32 {
				return false
			}
			*to = int(int32(d.number()))
			return true
		})
		return true
	})
	return h
}

// read reads the page that begins there.
func (p *pages) read(at int64, codec int) (*page, error) {
	if p.left--; p.left < 0 || at < int64(len(magic)) || at >= p.size {
		return nil, errShown
	}
	raw := make([]byte, min(maxHead, p.size-at))
	if err := p.at(at, raw); err != nil {
		return nil, err
	}
	d := &thrift{b: raw}
	h := readPageHead(d)
	body := at + int64(d.at)
	if d.err != nil || h.packed < 0 || h.unpacked < 0 || h.values < 0 || h.defBytes < 0 || h.repBytes < 0 || int64(h.packed) > p.size-body {
		return nil, errBad
	}
	if p.bytes -= h.packed + h.unpacked; h.packed > maxPage || h.unpacked > maxPage || p.bytes < 0 {
		return nil, errShown
	}
	raw = make([]byte, h.packed)
	if err := p.at(body, raw); err != nil {
		return nil, err
	}
	out := &page{kind: h.kind, values: h.values, encoding: h.encoding, next: body + int64(h.packed)}
	want := h.unpacked
	if h.kind == pageDataV2 {
		if levels := h.defBytes + h.repBytes; levels > len(raw) || levels > want {
			return nil, errBad
		}
		out.reps, out.defs, raw = raw[:h.repBytes], raw[h.repBytes:h.repBytes+h.defBytes], raw[h.repBytes+h.defBytes:]
		want -= h.defBytes + h.repBytes
		if h.plain {
			codec = 0
		}
	}
	var err error
	out.body, err = unpack(codec, raw, want)
	return out, err
}

func (p *pages) at(at int64, b []byte) error {
	err := readAt(p.r, at, b)
	if err != nil {
		p.failed = err
	}
	return err
}

// unpack makes want bytes of a body, and never more.
func unpack(codec int, raw []byte, want int) ([]byte, error) {
	var in io.Reader
	switch codec {
	case 0:
		return raw, nil
	case 1:
		if n, err := s2.DecodedLen(raw); err != nil || n != want {
			return nil, errBad
		}
		out, err := s2.Decode(make([]byte, want), raw)
		if err != nil {
			return nil, errBad
		}
		return out, nil
	case 2:
		z, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, errBad
		}
		in = z
	case 6:
		z, err := zstd.NewReader(bytes.NewReader(raw), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(2*maxPage), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, errBad
		}
		defer z.Close()
		in = z
	default:
		return nil, errShown
	}
	out := make([]byte, want)
	if _, err := io.ReadFull(in, out); err != nil {
		return nil, errBad
	}
	return out, nil
}
