package gateway

import (
	"bytes"
	"strconv"
)

// usage finds how many tokens an answer took: what its last "total_tokens" says or, where a stream says nothing, one for
// each of its events. It looks at bytes as they pass, and keeps a few.
type usage struct {
	total, events int64
	tail          []byte // the last of what passed
}

var (
	wordTotal = []byte(`"total_tokens"`)
	wordEvent = []byte("data:")
)

// keepTail is more than `"total_tokens": 12345678901234` has.
const keepTail = 64

// see looks at the next piece.
func (u *usage) see(p []byte, stream bool) {
	var room [2 * keepTail]byte
	edge := append(append(room[:0], u.tail...), p[:min(len(p), keepTail)]...) // what the cut between two pieces may hide
	if stream {
		n := len(u.tail)
		u.events += int64(bytes.Count(p, wordEvent) + bytes.Count(edge[max(n-4, 0):min(n+4, len(edge))], wordEvent))
	}
	u.find(edge)
	u.find(p)
	if len(p) >= keepTail {
		u.tail = append(u.tail[:0], p[len(p)-keepTail:]...)
		return
	}
	u.tail = append(u.tail[:0], edge[max(len(edge)-keepTail, 0):]...)
}

// find reads the last number that follows the word.
func (u *usage) find(p []byte) {
	i := bytes.Index(p, wordTotal) // forwards is many times as fast as bytes.LastIndex, and most answers have one or none
	if i < 0 {
		return
	}
	for next := 0; next >= 0; {
		if next = bytes.Index(p[i+len(wordTotal):], wordTotal); next >= 0 {
			i += len(wordTotal) + next
		}
	}
	rest := bytes.TrimLeft(p[i+len(wordTotal):], " \t\r\n")
	if len(rest) == 0 || rest[0] != ':' {
		return
	}
	rest = bytes.TrimLeft(rest[1:], " \t\r\n")
	n := 0
	for n < len(rest) && n < 15 && rest[n] >= '0' && rest[n] <= '9' {
		n++
	}
	if n == 0 || n == len(rest) || n == 15 {
		return // it may go on in the next piece, or is no number of tokens
	}
	if v, err := strconv.ParseInt(string(rest[:n]), 10, 64); err == nil && v >= 0 {
		u.total = v
	}
}

// tokens is what was found.
func (u *usage) tokens() int64 {
	if u.total > 0 {
		return u.total
	}
	return u.events
}
