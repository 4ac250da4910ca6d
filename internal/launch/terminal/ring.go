package terminal

// ringBytes is how much of what was printed can be printed again.
const ringBytes = 256 << 10

// piece is a part of what was printed.
type piece struct {
	offset int64
	errors bool // of the standard error
	data   []byte
}

// ring is the newest of what was printed.
type ring struct {
	pieces []piece
	bytes  int
	end    int64 // of all that ever was printed
}

// start is the offset of the oldest byte that is left.
func (r *ring) start() int64 {
	if len(r.pieces) == 0 {
		return r.end
	}
	return r.pieces[0].offset
}

// add takes over data, and forgets the oldest pieces that are beyond the bound.
func (r *ring) add(data []byte, errors bool) {
	if n := len(r.pieces); n > 0 && r.pieces[n-1].errors == errors && len(r.pieces[n-1].data)+len(data) <= 4<<10 {
		last := &r.pieces[n-1] // many small ones would cost more than they hold
		last.data = append(last.data[:len(last.data):len(last.data)], data...)
	} else {
		r.pieces = append(r.pieces, piece{r.end, errors, data})
	}
	r.end += int64(len(data))
	r.bytes += len(data)
	drop := 0
	for drop < len(r.pieces)-1 && r.bytes-len(r.pieces[drop].data) >= ringBytes {
		r.bytes -= len(r.pieces[drop].data)
		drop++
	}
	if drop > 0 {
		r.pieces = append(r.pieces[:0:0], r.pieces[drop:]...)
	}
}

// after is the piece that begins at an offset, or the oldest one after it; ok is false where nothing is there yet.
func (r *ring) after(offset int64) (p piece, ok bool) {
	for _, p := range r.pieces {
		if end := p.offset + int64(len(p.data)); end > offset {
			if cut := offset - p.offset; cut > 0 {
				p.offset, p.data = offset, p.data[cut:]
			}
			return p, true
		}
	}
	return piece{}, false
}
