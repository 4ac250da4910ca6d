package parquet

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// The kinds of values.
const (
	kindBool   = 0
	kindI32    = 1
	kindI64    = 2
	kindI96    = 3
	kindFloat  = 4
	kindDouble = 5
	kindBytes  = 6
	kindFixed  = 7
)

// What numbers may mean.
const (
	meansDate   = 6
	meansMillis = 9
	meansMicros = 10
	meansU8     = 11
	meansU64    = 14
)

// maxText is how much of a value is shown.
const maxText = 1 << 10

// values are some that lie in a page, or in a dictionary.
type values struct {
	n     int
	raw   []byte
	width int      // of each; 0: see ends
	ends  []uint32 // where values of their own lengths end; each has four bytes before it
	bools []uint32
	of    *values // a dictionary, of which those are meant
	which []uint32
}

// plain finds n values that lie one behind the other.
func plain(l *leaf, body []byte, n int) (values, error) {
	v := values{n: n, raw: body}
	switch l.kind {
	case kindBool:
		if (n+7)/8 > len(body) {
			return v, errBad
		}
		v.bools = make([]uint32, 0, n)
		for i := range n {
			v.bools = append(v.bools, uint32(body[i/8]>>(i%8)&1))
		}
		return v, nil
	case kindI32, kindFloat:
		v.width = 4
	case kindI64, kindDouble:
		v.width = 8
	case kindI96:
		v.width = 12
	case kindFixed:
		v.width = l.width
	case kindBytes:
		at := 0
		for range n {
			if len(body)-at < 4 {
				return v, errBad
			}
			size := binary.LittleEndian.Uint32(body[at:])
			if int64(size) > int64(len(body)-at-4) {
				return v, errBad
			}
			at += 4 + int(size)
			v.ends = append(v.ends, uint32(at))
		}
		return v, nil
	default:
		return v, errShown
	}
	if v.width <= 0 || n > len(body)/v.width {
		return v, errBad
	}
	return v, nil
}

// at is the i-th, which is there: nil is a truth that is not.
func (v values) at(i int) []byte {
	switch {
	case v.of != nil:
		return v.of.at(int(v.which[i]))
	case v.bools != nil:
		if v.bools[i] == 0 {
			return nil
		}
		return []byte{1}
	case v.ends != nil:
		begin := 4
		if i > 0 {
			begin += int(v.ends[i-1])
		}
		return v.raw[begin:v.ends[i]]
	}
	return v.raw[i*v.width : (i+1)*v.width]
}

// text is a value for people.
func (l *leaf) text(b []byte) string {
	switch l.kind {
	case kindBool:
		return strconv.FormatBool(b != nil)
	case kindI32:
		n := int32(binary.LittleEndian.Uint32(b))
		switch {
		case l.converted == meansDate:
			return time.Unix(0, 0).UTC().AddDate(0, 0, int(n)).Format(time.DateOnly)
		case l.converted >= meansU8 && l.converted < meansU64:
			return strconv.FormatUint(uint64(uint32(n)), 10)
		}
		return strconv.Itoa(int(n))
	case kindI64:
		n := int64(binary.LittleEndian.Uint64(b))
		switch l.converted {
		case meansMillis:
			return time.UnixMilli(n).UTC().Format("2006-01-02 15:04:05.999")
		case meansMicros:
			return time.UnixMicro(n).UTC().Format("2006-01-02 15:04:05.999999")
		case meansU64:
			return strconv.FormatUint(uint64(n), 10)
		}
		return strconv.FormatInt(n, 10)
	case kindFloat:
		return strconv.FormatFloat(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), 'g', -1, 32)
	case kindDouble:
		return strconv.FormatFloat(math.Float64frombits(binary.LittleEndian.Uint64(b)), 'g', -1, 64)
	case kindBytes, kindFixed:
		if shown := b[:min(len(b), maxText)]; utf8.Valid(shown) || len(b) > maxText && validBut(shown) {
			return string(shown)
		}
		return fmt.Sprintf("<%d B>", len(b))
	}
	return unknown
}

// validBut says that only the last character is cut.
func validBut(b []byte) bool {
	for cut := 1; cut < utf8.UTFMax; cut++ {
		if utf8.Valid(b[:len(b)-cut]) {
			return true
		}
	}
	return false
}
