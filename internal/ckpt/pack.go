package ckpt

import (
	"errors"
	"io"
	"sync"
)

// packAlign is what the pieces that a pack gives while it grows are a multiple of, and where they lie in memory:
// so a store writes them around the page cache, from where they are.
const packAlign = 4096

// pack is an object of chunks that is written while it grows: one goroutine adds to it, another puts
// it. It is an io.WriterTo, which gives what is there as it comes and frees its buffers, and an io.ReadSeeker, for stores
// that need the whole length first, or the bytes again: that gathers them, and waits for the end.
type pack struct {
	key  string
	free chan<- []byte // where buffers go; takes all there are

	hashes []byte // of its chunks, one after the other; only who adds changes it

	mu       sync.Mutex
	grown    *sync.Cond
	size     int      // only who adds changes it
	pieces   [][]byte // full buffers, each cut to a multiple of packAlign
	tail     []byte   // what is left behind the last of them
	streamed bool
	whole    []byte // everything, once gathered is asked for
	gathered bool
	ended    bool
	err      error
	at       int
}

func newPack(key string, free chan<- []byte) *pack {
	p := &pack{key: key, free: free, tail: make([]byte, 0, packAlign)}
	p.grown = sync.NewCond(&p.mu)
	return p
}

// add takes a chunk with its buffer: what the last one left goes in front of it.
func (p *pack) add(j *moving) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.grown.Broadcast()
	p.size += j.length
	p.hashes = append(p.hashes, j.hash[:]...)
	chunk := j.buf[j.at : j.at+j.length]
	if p.gathered {
		p.whole = append(p.whole, chunk...)
		p.free <- j.buf
		return
	}
	skip := len(p.tail)
	if j.at != skip {
		copy(j.buf[skip:], chunk) // not all before it went into the pack
	}
	copy(j.buf, p.tail)
	n := (skip + j.length) / packAlign * packAlign
	p.tail = append(p.tail[:0], j.buf[n:skip+j.length]...)
	if n == 0 {
		p.free <- j.buf
		return
	}
	p.pieces = append(p.pieces, j.buf[:n])
}

// hold says, before the first chunk, that all of it is kept until the end, in room as far as that goes.
func (p *pack) hold(room []byte) { p.gathered, p.whole = true, room }

// end says that no more come; with an error that what is there is of no use.
func (p *pack) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended, p.err = true, err
	p.grown.Broadcast()
}

// next waits for a piece, or the end; full says that it is a buffer, to be freed.
func (p *pack) next() (piece []byte, full bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streamed = true
	for !p.ended && len(p.pieces) == 0 {
		p.grown.Wait()
	}
	if p.err != nil {
		return nil, false, p.err
	}
	if len(p.pieces) > 0 {
		piece, p.pieces = p.pieces[0], p.pieces[1:]
		return piece, true, nil
	}
	piece, p.tail = p.tail, nil
	return piece, false, nil
}

// WriteTo gives everything as it comes, once; what was gathered, as often as it is asked for.
func (p *pack) WriteTo(w io.Writer) (int64, error) {
	if rest, ok := p.rest(); ok {
		n, err := w.Write(rest)
		return int64(n), err
	}
	var all int64
	for {
		piece, full, err := p.next()
		if err != nil || len(piece) == 0 {
			return all, err
		}
		n, err := w.Write(piece)
		all += int64(n)
		if full {
			p.free <- piece[:cap(piece)]
		}
		if err != nil {
			return all, err
		}
	}
}

// rest is what is left of a pack that was gathered.
func (p *pack) rest() ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gathered || p.gather() != nil {
		return nil, false
	}
	rest := p.whole[p.at:]
	p.at = len(p.whole)
	return rest, true
}

// gather brings all together and waits for the end.
func (p *pack) gather() error {
	if p.streamed {
		return errors.New("a pack that was given away is read again")
	}
	if !p.gathered {
		p.gathered = true
		for _, b := range p.pieces {
			p.whole = append(p.whole, b...)
			p.free <- b[:cap(b)]
		}
		p.whole = append(p.whole, p.tail...)
		p.pieces, p.tail = nil, nil
	}
	for !p.ended {
		p.grown.Wait()
	}
	return p.err
}

func (p *pack) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.gather(); err != nil {
		return 0, err
	}
	if p.at >= len(p.whole) {
		return 0, io.EOF
	}
	n := copy(b, p.whole[p.at:])
	p.at += n
	return n, nil
}

// Seek is io.Seeker.
func (p *pack) Seek(offset int64, whence int) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.gather(); err != nil {
		return 0, err
	}
	base := map[int]int{io.SeekStart: 0, io.SeekCurrent: p.at, io.SeekEnd: len(p.whole)}[whence]
	to := int64(base) + offset
	if to < 0 || to > int64(len(p.whole)) {
		return 0, errors.New("a seek out of the pack")
	}
	p.at = int(to)
	return to, nil
}
