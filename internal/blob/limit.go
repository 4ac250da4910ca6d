package blob

import (
	"context"
	"io"
	"sync"
	"time"
)

// limitSlice is how much goes at once before the pace is looked at.
const limitSlice = 256 << 10

// Writable is a Store that can also create.
type Writable interface {
	Store
	Creator
}

// Limit makes all that is put into a store together take no more than rate bytes a second; 0 is no limit.
// What is read is not held up: a restore is waited for.
func Limit(s Writable, rate int64) Writable {
	if rate <= 0 {
		return s
	}
	return &paced{Writable: s, rate: rate}
}

type paced struct {
	Writable
	rate int64

	mu   sync.Mutex
	next time.Time // when the next bytes may go
}

// Put is the store's, slowly.
func (l *paced) Put(ctx context.Context, key string, r io.Reader) (Info, error) {
	return l.Writable.Put(ctx, key, l.slow(ctx, r))
}

// Create is the store's, slowly.
func (l *paced) Create(ctx context.Context, key string, r io.Reader) (Info, error) {
	return l.Writable.Create(ctx, key, l.slow(ctx, r))
}

// slow keeps what a reader can: a body that can be sought can be sent again.
func (l *paced) slow(ctx context.Context, r io.Reader) io.Reader {
	s := slowReader{ctx, r, l}
	if seeker, ok := r.(io.Seeker); ok {
		return struct {
			slowReader
			io.Seeker
		}{s, seeker}
	}
	return s
}

type slowReader struct {
	ctx context.Context
	r   io.Reader
	l   *paced
}

func (s slowReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p[:min(len(p), limitSlice)])
	if wait := s.l.take(n); wait > 0 {
		select {
		case <-s.ctx.Done():
			return n, s.ctx.Err()
		case <-time.After(wait):
		}
	}
	return n, err
}

// take books n bytes and says how long they have to wait.
func (l *paced) take(n int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.next.Before(now) {
		l.next = now
	}
	wait := l.next.Sub(now)
	l.next = l.next.Add(time.Duration(float64(n) / float64(l.rate) * float64(time.Second)))
	return wait
}
