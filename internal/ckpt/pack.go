package ckpt

import (
	"errors"
	"io"
	"sync"
)

// packWrite is the least that a pack gives at once while it grows, and packAlign what that is a
// multiple of: so a store writes it around the page cache, from where it lies.
const (
	packWrite = 4 << 20
	packAlign = 4096
)

// pack is an object of chunks that is written while it grows: one goroutine adds to it, another puts
// it. It is an io.WriterTo, which gives what is there as it comes, and an io.ReadSeeker, for stores that
// need the whole length first: that waits for the end.
type pack struct {
	key string
	raw []byte // only what lies below size is looked at by who puts it

	mu    sync.Mutex
	grown *sync.Cond
	size  int
	ended bool
	err   error
	at    int
}

func newPack(key string, raw []byte) *pack {
	p := &pack{key: key, raw: raw}
	p.grown = sync.NewCond(&p.mu)
	return p
}

// grow says that the bytes up to size are there and change no more.
func (p *pack) grow(size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size = size
	p.grown.Broadcast()
}

// end says that no more come; with an error that what is there is of no use.
func (p *pack) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended, p.err = true, err
	p.grown.Broadcast()
}

// next waits for at least packWrite bytes, or the end.
func (p *pack) next() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.ended && p.size-p.at < packWrite {
		p.grown.Wait()
	}
	to := p.size
	if !p.ended {
		to = p.size / packAlign * packAlign
	}
	part := p.raw[p.at:max(to, p.at)]
	p.at += len(part)
	return part, p.err
}

// WriteTo gives the rest as it comes.
func (p *pack) WriteTo(w io.Writer) (int64, error) {
	var all int64
	for {
		part, err := p.next()
		if err != nil || len(part) == 0 {
			return all, err
		}
		n, err := w.Write(part)
		all += int64(n)
		if err != nil {
			return all, err
		}
	}
}

// whole waits for the end.
func (p *pack) whole() error {
	for !p.ended {
		p.grown.Wait()
	}
	return p.err
}

func (p *pack) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.whole(); err != nil {
		return 0, err
	}
	if p.at >= p.size {
		return 0, io.EOF
	}
	n := copy(b, p.raw[p.at:p.size])
	p.at += n
	return n, nil
}

// Seek is io.Seeker.
func (p *pack) Seek(offset int64, whence int) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.whole(); err != nil {
		return 0, err
	}
	base := map[int]int{io.SeekStart: 0, io.SeekCurrent: p.at, io.SeekEnd: p.size}[whence]
	to := int64(base) + offset
	if to < 0 || to > int64(p.size) {
		return 0, errors.New("a seek out of the pack")
	}
	p.at = int(to)
	return to, nil
}
