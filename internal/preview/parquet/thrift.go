package parquet

import (
	"encoding/binary"
	"errors"
)

// errBad is a file that is not what it says.
var errBad = errors.New("parquet: the file is damaged, or none")

// deepest is how far structures may lie in each other.
const deepest = 24

// The types of Thrift's compact protocol.
const (
	typeTrue   = 1
	typeFalse  = 2
	typeByte   = 3
	typeI16    = 4
	typeI32    = 5
	typeI64    = 6
	typeDouble = 7
	typeBinary = 8
	typeList   = 9
	typeSet    = 10
	typeMap    = 11
	typeStruct = 12
)

// thrift reads Thrift's compact protocol. What it gives lies in b; after a fault it gives nothing and all loops end.
type thrift struct {
	b     []byte
	at    int
	depth int
	err   error
}

func (d *thrift) fail() {
	d.err = errBad
}

func (d *thrift) left() int {
	if d.err != nil {
		return 0
	}
	return len(d.b) - d.at
}

func (d *thrift) byte() byte {
	if d.left() < 1 {
		d.fail()
		return 0
	}
	d.at++
	return d.b[d.at-1]
}

func (d *thrift) varint() uint64 {
	if d.left() == 0 {
		d.fail()
		return 0
	}
	v, n := binary.Uvarint(d.b[d.at:])
	if n <= 0 {
		d.fail()
		return 0
	}
	d.at += n
	return v
}

func (d *thrift) number() int64 {
	v := d.varint()
	return int64(v>>1) ^ -int64(v&1)
}

// skipBytes goes over n bytes.
func (d *thrift) skipBytes(n int) {
	if n > d.left() {
		d.fail()
		return
	}
	d.at += n
}

func (d *thrift) text() string {
	n := d.varint()
	if n > uint64(d.left()) {
		d.fail()
		return ""
	}
	d.at += int(n)
	return string(d.b[d.at-int(n) : d.at])
}

// fields reads a structure: f takes a field, or says that it does not.
func (d *thrift) fields(f func(id int, kind byte) bool) {
	if d.depth++; d.depth > deepest {
		d.fail()
	}
	id := 0
	for d.err == nil {
		head := d.byte()
		kind := head & 15
		if head == 0 || d.err != nil {
			break
		}
		if step := int(head >> 4); step > 0 {
			id += step
		} else {
			id = int(int16(d.number()))
		}
		if !f(id, kind) {
			d.skip(kind)
		}
	}
	d.depth--
}

// list reads one: f takes each of its elements.
func (d *thrift) list(f func(i int, kind byte)) {
	head := d.byte()
	n := uint64(head >> 4)
	if n == 15 {
		n = d.varint()
	}
	if n > uint64(d.left()) { // each has a byte at least
		d.fail()
	}
	if d.depth++; d.depth > deepest {
		d.fail()
	}
	for i := 0; d.err == nil && uint64(i) < n; i++ {
		f(i, head&15)
	}
	d.depth--
}

func (d *thrift) skip(kind byte) {
	switch kind {
	case typeTrue, typeFalse: // in the head of its field
	case typeByte:
		d.byte()
	case typeI16, typeI32, typeI64:
		d.varint()
	case typeDouble:
		d.skipBytes(8)
	case typeBinary:
		if n := d.varint(); n > uint64(d.left()) {
			d.fail()
		} else {
			d.at += int(n)
		}
	case typeList, typeSet:
		d.list(func(_ int, kind byte) { d.element(kind) })
	case typeMap:
		d.fail() // none of what is read has one
	case typeStruct:
		d.fields(func(int, byte) bool { return false })
	default:
		d.fail()
	}
}

// element goes over one of a list, in which a truth is a byte.
func (d *thrift) element(kind byte) {
	if kind == typeTrue || kind == typeFalse {
		kind = typeByte
	}
	d.skip(kind)
}
