package history

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"time"
)

// MaxBlock is how many points a block holds, which is a row of an adapter's table.
const MaxBlock = 1024

// A block is a version, a count, and for each point how far time and step moved differently than
// before, and which bits of the value changed: steady series take four bytes a point.
const pointsVersion = 1

// EncodePoints packs at most MaxBlock points.
func EncodePoints(points []Point) []byte {
	out := binary.AppendUvarint([]byte{pointsVersion}, uint64(len(points)))
	var t, step, dt, dstep int64
	var value uint64
	for _, p := range points {
		// Differences wrap around and wrap back: no value is out of range.
		nt, ns, nv := p.Time.UnixNano(), p.Step, math.Float64bits(p.Value)
		out = binary.AppendVarint(out, (nt-t)-dt)
		out = binary.AppendVarint(out, (ns-step)-dstep)
		out = binary.AppendUvarint(out, bits.Reverse64(nv^value)) // what changes stands at the top
		t, step, dt, dstep, value = nt, ns, nt-t, ns-step, nv
	}
	return out
}

var errPoints = errors.New("history: damaged block of points")

// DecodePoints is the way back; a block that is not whole is refused.
func DecodePoints(b []byte) ([]Point, error) {
	var out []Point
	err := EachPoint(b, func(t, step int64, value float64) {
		out = append(out, Point{Time: time.Unix(0, t).UTC(), Step: step, Value: value})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// EachPoint is DecodePoints without a list, for who reads millions; t is in nanoseconds. What was called before an error is
// not to be used.
func EachPoint(b []byte, do func(t, step int64, value float64)) error {
	if len(b) < 2 || b[0] != pointsVersion {
		return errPoints
	}
	b = b[1:]
	count, n := binary.Uvarint(b)
	if n <= 0 || count > MaxBlock {
		return errPoints
	}
	b = b[n:]
	var t, step, dt, dstep int64
	var value uint64
	for range count {
		moved, n1 := binary.Varint(b)
		if n1 <= 0 {
			return errPoints
		}
		stepped, n2 := binary.Varint(b[n1:])
		if n2 <= 0 {
			return errPoints
		}
		changed, n3 := binary.Uvarint(b[n1+n2:])
		if n3 <= 0 {
			return errPoints
		}
		b = b[n1+n2+n3:]
		dt, dstep = dt+moved, dstep+stepped
		t, step, value = t+dt, step+dstep, value^bits.Reverse64(changed)
		do(t, step, math.Float64frombits(value))
	}
	if len(b) != 0 {
		return errPoints
	}
	return nil
}
