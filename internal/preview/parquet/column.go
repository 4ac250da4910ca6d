package parquet

import (
	"encoding/binary"
	"math/bits"
	"strings"
)

// The encodings that are read.
const (
	encPlain    = 0
	encDictOld  = 2
	encRLE      = 3
	encDictPage = 8
)

// column is one that is being read.
type column struct {
	*leaf
	chunk
	rows  int
	dict  values
	cells []string
	seen  int // values and holes
	// The row that is being read, of a list.
	open bool
	list []string
	null bool
}

// read gives the first cells, as many as there are to be had.
func (c *column) read(in *pages) ([]string, error) {
	at := c.data
	if c.chunk.dict > 0 && c.chunk.dict < at {
		at = c.chunk.dict
	}
	for !c.done() && int64(c.seen) < c.chunk.values {
		p, err := in.read(at, c.codec)
		if err != nil {
			return nil, err
		}
		at = p.next
		switch p.kind {
		case pageDict:
			if c.dict, err = plain(c.leaf, p.body, p.values); err != nil {
				return nil, err
			}
		case pageData, pageDataV2:
			if err := c.page(p); err != nil {
				return nil, err
			}
		}
	}
	c.close()
	return c.cells, nil
}

func (c *column) done() bool { return len(c.cells) >= c.rows || c.seen >= maxValues }

// page takes what is needed of a page.
func (c *column) page(p *page) error {
	want := int(min(int64(p.values), int64(maxValues-c.seen), c.chunk.values-int64(c.seen)))
	if want <= 0 {
		return errBad
	}
	body := p.body
	var reps, defs []uint32
	var err error
	for _, l := range []struct {
		to    *[]uint32
		apart []byte
		most  int
	}{{&reps, p.reps, c.maxRep}, {&defs, p.defs, c.maxDef}} {
		if l.most == 0 {
			continue
		}
		raw := l.apart
		if p.kind == pageData {
			if raw, body, err = lengthed(body); err != nil {
				return err
			}
		}
		if *l.to, err = hybrid(raw, bits.Len(uint(l.most)), want); err != nil {
			return err
		}
	}
	present := want
	if defs != nil {
		present = 0
		for _, d := range defs {
			if int(d) == c.maxDef {
				present++
			}
		}
	}
	vs, err := c.values(p.encoding, body, present)
	if err != nil {
		return err
	}
	next := 0
	for i := range want {
		rep, def := 0, c.maxDef
		if reps != nil {
			rep = int(reps[i])
		}
		if defs != nil {
			def = int(defs[i])
		}
		if rep == 0 {
			if c.close(); c.done() {
				return nil
			}
			c.open, c.null = true, def < c.maxDef && (c.maxRep == 0 || def < c.listDef-1)
		}
		c.seen++
		text := ""
		if def == c.maxDef {
			text = c.text(vs.at(next))
			next++
		}
		if c.maxRep == 0 || def >= c.listDef {
			c.add(text)
		}
	}
	return nil
}

// most is how many elements of a list are shown.
const most = 16

func (c *column) add(text string) {
	if len(c.list) < most {
		c.list = append(c.list, text)
	} else if len(c.list) == most {
		c.list = append(c.list, unknown)
	}
}

// close ends a row.
func (c *column) close() {
	if !c.open {
		return
	}
	text := strings.Join(c.list, ", ")
	if c.maxRep > 0 && !c.null {
		text = "[" + text + "]"
	}
	c.cells = append(c.cells, text)
	c.open, c.list = false, c.list[:0]
}

// values are those of a page.
func (c *column) values(encoding int, body []byte, n int) (values, error) {
	switch encoding {
	case encPlain:
		return plain(c.leaf, body, n)
	case encRLE:
		if c.kind != kindBool {
			return values{}, errShown
		}
		raw, _, err := lengthed(body)
		if err != nil {
			return values{}, err
		}
		ones, err := hybrid(raw, 1, n)
		return values{bools: ones}, err
	case encDictOld, encDictPage:
		if n == 0 {
			return values{}, nil
		}
		if len(body) == 0 {
			return values{}, errBad
		}
		which, err := hybrid(body[1:], int(body[0]), n)
		if err != nil {
			return values{}, err
		}
		for _, i := range which {
			if int64(i) >= int64(c.dict.n) {
				return values{}, errBad
			}
		}
		return values{of: &c.dict, which: which}, nil
	}
	return values{}, errShown
}

// lengthed cuts off what four bytes before it say the length of.
func lengthed(b []byte) (first, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, errBad
	}
	n := binary.LittleEndian.Uint32(b)
	if int64(n) > int64(len(b)-4) {
		return nil, nil, errBad
	}
	return b[4 : 4+n], b[4+n:], nil
}

// hybrid reads want numbers of so many bits: runs of one, or packed ones.
func hybrid(b []byte, width, want int) ([]uint32, error) {
	if width > 32 {
		return nil, errBad
	}
	out := make([]uint32, 0, want)
	for len(out) < want {
		head, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errBad
		}
		b = b[n:]
		if head&1 == 0 { // a run
			bytes := (width + 7) / 8
			if len(b) < bytes || head == 0 {
				return nil, errBad
			}
			v := uint32(0)
			for i := range bytes {
				v |= uint32(b[i]) << (8 * i)
			}
			b = b[bytes:]
			for range min(head>>1, uint64(want-len(out))) {
				out = append(out, v)
			}
			continue
		}
		groups := head >> 1
		if groups == 0 || groups > uint64(maxPage) {
			return nil, errBad
		}
		packed := b[:min(uint64(len(b)), groups*uint64(width))]
		for i := 0; i < int(groups)*8 && len(out) < want; i++ {
			v, ok := unpackBits(packed, i*width, width)
			if !ok {
				return nil, errBad
			}
			out = append(out, v)
		}
		b = b[len(packed):]
	}
	return out, nil
}

func unpackBits(b []byte, at, width int) (v uint32, ok bool) {
	if at+width > 8*len(b) {
		return 0, false
	}
	for i := range width {
		v |= uint32(b[(at+i)/8]>>((at+i)%8)&1) << i
	}
	return v, true
}
