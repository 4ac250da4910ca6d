// Package id makes names that nobody else has.
//
// Place: foundation. Promise: ids sort by the time they were made (so "newest first" is a key
// scan), are safe in URLs, file names and DNS, and come from a given source of time and random
// bytes. Enemies: ids made from user text, ids that need a lookup to order.
package id

import (
	"crypto/rand"
	"io"
	"sync"
	"time"
)

// alphabet is Crockford's base 32 in lower case: no i, l, o, u.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// Source makes ids. Safe for concurrent use.
type Source struct {
	mu     sync.Mutex
	now    func() time.Time
	random io.Reader
	last   int64
}

// NewSource makes ids from this time and this randomness.
func NewSource(now func() time.Time, random io.Reader) *Source {
	return &Source{now: now, random: random}
}

// Default uses the wall clock and the system's randomness.
var Default = NewSource(time.Now, rand.Reader)

// New is "<prefix>-" and 20 characters: 11 of microseconds since 1970 (55 bits: they sort, and
// within one source never repeat or go back), 9 of randomness (45 bits).
func (s *Source) New(prefix string) string {
	s.mu.Lock()
	us := s.now().UnixMicro()
	if us <= s.last {
		us = s.last + 1
	}
	s.last = us
	s.mu.Unlock()
	var buf [20]byte
	for i := 10; i >= 0; i-- {
		buf[i] = alphabet[us&31]
		us >>= 5
	}
	fill(buf[11:], s.random)
	return prefix + "-" + string(buf[:])
}

// Random is n characters of the id alphabet, five bits each.
func (s *Source) Random(n int) string {
	buf := make([]byte, n)
	fill(buf, s.random)
	return string(buf)
}

func fill(buf []byte, random io.Reader) {
	if _, err := io.ReadFull(random, buf); err != nil {
		panic("id: no randomness: " + err.Error())
	}
	for i := range buf {
		buf[i] = alphabet[buf[i]&31]
	}
}
