package terminal

import (
	"bytes"
	"testing"
)

// TestRing: the newest is there, whole and in order, from any offset; the oldest goes.
func TestRing(t *testing.T) {
	var r ring
	var all []byte
	for i := range 3000 {
		part := bytes.Repeat([]byte{byte(i)}, 1+i%700)
		all = append(all, part...)
		r.add(part, i%5 == 0)
	}
	if r.end != int64(len(all)) || r.bytes < ringBytes || r.bytes > 2*ringBytes {
		t.Fatalf("end %d of %d, %d kept", r.end, len(all), r.bytes)
	}
	for _, from := range []int64{r.start(), r.start() + 1, r.end - 10_000, r.end} {
		var got []byte
		for at := from; ; {
			p, ok := r.after(at)
			if !ok {
				break
			}
			if p.offset != at {
				t.Fatalf("a gap at %d: %d", at, p.offset)
			}
			got = append(got, p.data...)
			at += int64(len(p.data))
		}
		if !bytes.Equal(got, all[from:]) {
			t.Errorf("from %d: %d bytes instead of %d", from, len(got), len(all)-int(from))
		}
	}
	if p, ok := r.after(0); !ok || p.offset != r.start() {
		t.Errorf("what is forgotten: %+v", p.offset)
	}
}
