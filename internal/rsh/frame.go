package rsh

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// A conversation is frames: a byte that says what, four of length, and so many of content.
const (
	frameRun    = 'r' // asker: the command, once
	frameEnd    = 'q' // asker: no more commands; serve ends
	frameIn     = 'i' // asker: stdin; one at a time until it is taken; none: its end
	frameSignal = 's' // asker: the number of a signal
	frameTaken  = 'a' // serve: stdin was taken
	frameOut    = 'o' // serve: stdout
	frameErr    = 'e' // serve: stderr
	frameDone   = 'd' // serve: the exit code; the last
)

// maxFrame is what Linux takes for an exec, more or less.
const maxFrame = 1 << 20

// chunk is how much output travels at once.
const chunk = 32 << 10

// conversation writes whole frames, from several goroutines.
type conversation struct {
	mu sync.Mutex
	io.ReadWriter
}

func (c *conversation) send(kind byte, content []byte) error {
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(content)))
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.Write(append(head, content...))
	return err
}

func (c *conversation) receive() (kind byte, content []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes", n)
	}
	content = make([]byte, n)
	_, err = io.ReadFull(c, content)
	return head[0], content, err
}

// pass sends what comes from r until its end.
func (c *conversation) pass(kind byte, r io.Reader) {
	buf := make([]byte, chunk)
	for {
		n, err := r.Read(buf)
		if n > 0 && c.send(kind, buf[:n]) != nil {
			err = io.ErrClosedPipe // nobody hears; read on, so that the command is not held up while it ends
			_, _ = io.Copy(io.Discard, r)
		}
		if err != nil {
			return
		}
	}
}
