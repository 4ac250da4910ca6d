package depot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Who lays out asks with two numbers, the first chunk and how many; none asks for the list. The answer comes in pieces, each behind its length; a
// length of 0 is its end, and brokenOff says that there will be no more of anything.
const (
	maxPiece  = 1 << 20
	brokenOff = 1<<32 - 1
)

var errBrokenOff = errors.New("who brings the bytes has given up")

// Relay answers who lays out with what fetch writes, until it hangs up. An error is fetch's.
func Relay(ctx context.Context, conn io.ReadWriter, fetch func(ctx context.Context, first, count int, w io.Writer) error) error {
	var ask [8]byte
	for {
		if _, err := io.ReadFull(conn, ask[:]); err != nil {
			return nil // it has hung up; what came of it is its own word
		}
		p := &pieces{w: conn}
		err := fetch(ctx, int(binary.LittleEndian.Uint32(ask[:])), int(binary.LittleEndian.Uint32(ask[4:])), p)
		end := uint32(0)
		if err != nil {
			end = brokenOff
		}
		if werr := p.length(end); werr != nil || p.broken {
			return nil // likewise
		}
		if err != nil {
			return err
		}
	}
}

// pieces writes an answer.
type pieces struct {
	w      io.Writer
	broken bool // nobody reads any more
}

func (p *pieces) length(n uint32) error {
	_, err := p.w.Write(binary.LittleEndian.AppendUint32(nil, n))
	return err
}

// Write is io.Writer.
func (p *pieces) Write(b []byte) (int, error) {
	done := 0
	for len(b) > 0 {
		n := min(len(b), maxPiece)
		err := p.length(uint32(n))
		if err == nil {
			_, err = p.w.Write(b[:n])
		}
		if err != nil {
			p.broken = true
			return done, err
		}
		done, b = done+n, b[n:]
	}
	return done, nil
}

func ask(w io.Writer, first, count int) error {
	_, err := w.Write(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(first)), uint32(count)))
	return err
}

// answer reads one.
type answer struct {
	r    io.Reader
	left uint32 // of the piece
	over bool
}

// Read is io.Reader; io.EOF is the answer's own end.
func (a *answer) Read(p []byte) (int, error) {
	for a.left == 0 && !a.over {
		var head [4]byte
		if _, err := io.ReadFull(a.r, head[:]); err != nil {
			return 0, errors.Join(errBrokenOff, err)
		}
		switch n := binary.LittleEndian.Uint32(head[:]); {
		case n == brokenOff:
			return 0, errBrokenOff
		case n > maxPiece:
			return 0, fmt.Errorf("a piece of %d bytes", n)
		case n == 0:
			a.over = true
		default:
			a.left = n
		}
	}
	if a.over {
		return 0, io.EOF
	}
	n, err := a.r.Read(p[:min(len(p), int(a.left))])
	a.left -= uint32(n)
	return n, err
}
