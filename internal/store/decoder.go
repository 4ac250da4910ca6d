package store

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// Filling the cache is decoding: 100,000 objects in two seconds leave 20 µs for one, and
// encoding/json takes several times that. What we read is what json.Marshal wrote: no white space,
// fields in the order of the struct, hardly an escape. This decoder understands that much and
// gives up on everything else (an unknown or repeated field, white space, a wrong type), and then
// encoding/json decides, on the whole value, what it is and whether it is right. So it can be
// slow but never different; a fuzz test holds the two against each other.

// unmarshal is json.Unmarshal into a pointer to a zero value.
func unmarshal(raw []byte, zero any) error {
	v := reflect.ValueOf(zero).Elem()
	d := decoders.Get().(*decoder)
	d.raw, d.pos = raw, 0
	ok := planOf(v.Type())(d, v) && d.pos == len(raw)
	d.raw = nil
	decoders.Put(d)
	if ok {
		return nil
	}
	v.SetZero()
	return json.Unmarshal(raw, zero)
}

var decoders = sync.Pool{New: func() any { return &decoder{} }}

// decoder is a place in a text, and strings it has seen lately: most are the same in every
// object, and keeping them once is much of the memory.
type decoder struct {
	raw     []byte
	pos     int
	strings [1024]string
	// amounts are texts such as "16Gi" that were read before.
	amounts map[amount]int64
}

type amount struct {
	of   reflect.Type
	text string
}

const maxAmounts = 1024

func (d *decoder) eat(c byte) bool {
	if d.pos < len(d.raw) && d.raw[d.pos] == c {
		d.pos++
		return true
	}
	return false
}

func (d *decoder) eatNull() bool {
	if len(d.raw)-d.pos >= 4 && string(d.raw[d.pos:d.pos+4]) == "null" {
		d.pos += 4
		return true
	}
	return false
}

// span cuts out one value without looking closely: whoever gets it checks it.
func (d *decoder) span() ([]byte, bool) {
	start, depth := d.pos, 0
	for d.pos < len(d.raw) {
		switch c := d.raw[d.pos]; c {
		case '"':
			if !d.skipString() {
				return nil, false
			}
		case '{', '[':
			depth++
			d.pos++
		case '}', ']', ',':
			if depth == 0 {
				return d.raw[start:d.pos], d.pos > start
			}
			if c != ',' {
				depth--
			}
			d.pos++
		default:
			d.pos++
		}
		if depth == 0 && (d.pos == len(d.raw) || strings.IndexByte(",]}", d.raw[d.pos]) >= 0) {
			return d.raw[start:d.pos], true
		}
	}
	return nil, false
}

func (d *decoder) skipString() bool {
	for d.pos++; d.pos < len(d.raw); d.pos++ {
		switch d.raw[d.pos] {
		case '\\':
			d.pos++
		case '"':
			d.pos++
			return true
		}
	}
	return false
}

// text reads a string without escapes. The bytes are the input's.
func (d *decoder) text() ([]byte, bool) {
	if !d.eat('"') {
		return nil, false
	}
	start, wide := d.pos, false
	for ; d.pos < len(d.raw); d.pos++ {
		switch c := d.raw[d.pos]; {
		case c == '"':
			s := d.raw[start:d.pos]
			d.pos++
			return s, !wide || utf8.Valid(s)
		case c == '\\' || c < ' ':
			return nil, false
		case c >= utf8.RuneSelf:
			wide = true
		}
	}
	return nil, false
}

// str is a string value, with escapes left to encoding/json.
func (d *decoder) str() (string, bool) {
	start := d.pos
	if s, ok := d.text(); ok {
		return d.share(s), true
	}
	d.pos = start
	if d.pos >= len(d.raw) || d.raw[d.pos] != '"' || !d.skipString() {
		return "", false
	}
	var s string
	err := json.Unmarshal(d.raw[start:d.pos], &s)
	return s, err == nil
}

// share gives the same string for the same short text.
func (d *decoder) share(s []byte) string {
	if len(s) == 0 {
		return ""
	}
	if len(s) > 32 {
		return string(s)
	}
	h := uint32(2166136261)
	for _, c := range s {
		h = (h ^ uint32(c)) * 16777619
	}
	slot := &d.strings[(h^h>>16)%uint32(len(d.strings))]
	if *slot != string(s) {
		*slot = string(s)
	}
	return *slot
}

// digits reads a plain whole number of at most 18 digits.
func (d *decoder) digits() (n uint64, ok bool) {
	start := d.pos
	for d.pos < len(d.raw) && d.raw[d.pos] >= '0' && d.raw[d.pos] <= '9' {
		n = n*10 + uint64(d.raw[d.pos]-'0')
		d.pos++
	}
	size := d.pos - start
	return n, size > 0 && size <= 18 && (size == 1 || d.raw[start] != '0')
}

// float reads a number as encoding/json does.
func (d *decoder) float(bits int) (f float64, ok bool) {
	start := d.pos
	d.eat('-')
	if _, ok := d.digits(); !ok {
		return 0, false
	}
	if d.eat('.') && !d.some() {
		return 0, false
	}
	if d.eat('e') || d.eat('E') {
		if !d.eat('-') {
			d.eat('+')
		}
		if !d.some() {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(string(d.raw[start:d.pos]), bits)
	return f, err == nil
}

// some passes over digits, of which there must be one.
func (d *decoder) some() bool {
	start := d.pos
	for d.pos < len(d.raw) && d.raw[d.pos] >= '0' && d.raw[d.pos] <= '9' {
		d.pos++
	}
	return d.pos > start
}
