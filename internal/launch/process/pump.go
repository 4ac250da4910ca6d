package process

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/launch/spool"
)

// unfinished is a line that has not ended yet.
type unfinished struct {
	part    []byte // what was not written yet of it
	started bool   // a part of it was already written
	back    bool   // a carriage return came: what comes next is written over it
	over    bool   // part is to replace what was written of it
}

// pump carries one of the process's pipes into the spool, line by line. It holds at most one line
// of logbook.MaxText bytes; back-pressure on the process comes only from the spool's disk.
type pump struct {
	rank   int
	stream byte
	r      *os.File
	spool  *spool.Spool
	tail   *tail         // of its rank
	steps  Reader        // of its rank; nil: nobody
	ended  chan struct{} // closed when nothing more comes

	said []byte // for steps: the line that has not ended yet
	unfinished
	lines []spool.Text

	mu     sync.Mutex
	ending bool
	armed  bool
}

const (
	// idlePart is after how long a line without an end (a progress bar, a prompt) is shown as far
	// as it has come. A bar that is drawn ten times in that time is written once, as it is then.
	idlePart = time.Second
	// drainLimit is how long the pipe is read on after the whole tree has ended: only a process
	// that escaped can still hold it.
	drainLimit = time.Second
	drainBytes = 4 << 20
)

// run reads until the pipe's end, or until finish and drainLimit.
func (p *pump) run() {
	defer close(p.ended)
	defer p.r.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := p.r.Read(buf)
		p.feed(buf[:n])
		switch {
		case err == nil:
			p.arm(len(p.part) > 0)
		case errors.Is(err, os.ErrDeadlineExceeded):
			if p.isEnding() {
				p.drain(buf)
				p.end()
				return
			}
			p.flush()
			p.arm(false)
		default: // the end, or a pipe that can't be read any more
			p.end()
			return
		}
	}
}

// arm wakes the read idlePart after the first byte that is not written, while a line has not ended. What comes
// meanwhile must not put it off: a bar never pauses.
func (p *pump) arm(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending || on == p.armed {
		return
	}
	p.armed = on
	var at time.Time
	if on {
		at = time.Now().Add(idlePart)
	}
	_ = p.r.SetReadDeadline(at)
}

// finish says that the tree has ended: what is in the pipe is still read, nothing is waited for.
func (p *pump) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending = true
	_ = p.r.SetReadDeadline(time.Now().Add(drainLimit))
}

func (p *pump) isEnding() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ending
}

// drain takes what lies in the pipe at this moment, bounded, since an escaped process may write on.
func (p *pump) drain(buf []byte) {
	raw, err := p.r.SyscallConn()
	if err != nil {
		return
	}
	for total := 0; total < drainBytes; {
		n := 0
		_ = p.r.SetReadDeadline(time.Time{})
		if raw.Read(func(fd uintptr) bool {
			n, err = unix.Read(int(fd), buf)
			return true // never wait
		}) != nil || err != nil || n <= 0 {
			return
		}
		p.feed(buf[:n])
		total += n
	}
}

// feed cuts data into lines. The bytes are used before it returns.
func (p *pump) feed(data []byte) {
	p.tail.add(data)
	if p.steps != nil {
		p.said = p.steps.Feed(p.said, data)
	}
	p.lines = p.lines[:0]
	for len(data) > 0 {
		i := bytes.IndexByte(data, '\n')
		line, whole := data, false
		if i >= 0 {
			line, data, whole = data[:i], data[i+1:], true
		} else {
			data = nil
		}
		p.add(line, whole)
	}
	p.spool.Write(p.rank, p.stream, p.lines)
}

// add takes a piece of a line. whole: the line ends here. A carriage return lets what follows replace what the
// line was so far, as on a terminal; before the end of the line it means nothing.
func (p *pump) add(piece []byte, whole bool) {
	for {
		if whole && len(p.part) == 0 && !p.back && !p.over && len(piece) <= logbook.MaxText && bytes.IndexByte(piece, '\r') < 0 {
			p.emit(piece, false)
			p.started = false
			return
		}
		n := bytes.IndexByte(piece, '\r')
		if n == 0 {
			p.back, piece = true, piece[1:]
			continue
		}
		if p.back && len(piece) > 0 {
			p.back, p.over, p.part = false, p.started, p.part[:0]
		}
		if n < 0 {
			n = len(piece)
		}
		room := logbook.MaxText - len(p.part)
		if p.over {
			room-- // for the carriage return before it
		}
		n = min(room, n)
		p.part = append(p.part, piece[:n]...)
		piece = piece[n:]
		switch {
		case len(piece) > 0 && piece[0] == '\r':
		case len(piece) > 0:
			p.emitPart(true)
		case whole:
			p.emitPart(false)
			p.back = false
			return
		default:
			return
		}
	}
}

// emitPart hands over a copy of the held part, because the spool sees it only at the end of feed. One that replaces
// what was written of its line begins with a carriage return.
func (p *pump) emitPart(partial bool) {
	text := bytes.Clone(p.part)
	if p.over {
		text = append([]byte{'\r'}, text...)
	}
	p.emit(text, partial)
	p.part, p.over = p.part[:0], false
	p.started = partial
}

func (p *pump) emit(b []byte, partial bool) {
	p.lines = append(p.lines, spool.Text{Bytes: b, Partial: partial})
}

// flush shows an unfinished line as far as it has come.
func (p *pump) flush() {
	if len(p.part) == 0 {
		return
	}
	p.lines = p.lines[:0]
	p.emitPart(true)
	p.spool.Write(p.rank, p.stream, p.lines)
}

// end writes the last line, which has no line end.
func (p *pump) end() {
	if p.steps != nil && len(p.said) > 0 { // so bars leave it
		p.said = p.steps.Feed(p.said, []byte{'\n'})
	}
	if len(p.part) == 0 && !p.started {
		return
	}
	p.lines = p.lines[:0]
	p.emitPart(false)
	p.spool.Write(p.rank, p.stream, p.lines)
}
