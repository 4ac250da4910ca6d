package spool

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Spool is the log on disk, in logbook's line format. Every write is of whole lines at the known
// end, so that what lies below size is always whole lines, whatever failed above it.
type Spool struct {
	clock clock.Clock
	log   *slog.Logger

	mu       sync.Mutex
	F        *os.File
	size     int64
	closed   bool
	last     time.Time // no line is older than the one before
	buf      []byte
	dropped  int64 // lines that the disk did not take, since the last notice
	lostEver int64
	rank     int // of our own lines
	changed  chan struct{}
	mask     *strings.Replacer // nil: nothing to hide
	hidden   []string
}

// Hide makes these texts unseen in every line from now on, beside those that were before.
func (s *Spool) Hide(values []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = append(s.hidden, values...)
	s.mask = masker(s.hidden)
}

// Masked is a text as it is seen in the log.
func (s *Spool) Masked(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mask == nil {
		return text
	}
	return s.mask.Replace(text)
}

// Open opens or creates the file. The torn end that a killed launcher may leave is cut off.
func Open(path string, c clock.Clock, log *slog.Logger) (*Spool, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	size, err := wholeLines(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("read spool: %w", err)
	}
	return &Spool{clock: c, log: log, F: f, size: size, changed: make(chan struct{}, 1)}, nil
}

// wholeLines is the offset after the last line end. A line is far shorter than the block read.
func wholeLines(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	end := info.Size()
	buf := make([]byte, 64<<10)
	for end > 0 {
		n := min(end, int64(len(buf)))
		if _, err := f.ReadAt(buf[:n], end-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			end = end - n + int64(i) + 1
			break
		}
		end -= n
	}
	if end != info.Size() {
		return end, f.Truncate(end)
	}
	return end, nil
}

// Size is for link: whole lines only.
func (s *Spool) Size() (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size, s.closed
}

// ReadAt is for link.
func (s *Spool) ReadAt(p []byte, off int64) (int, error) { return s.F.ReadAt(p, off) }

// Changed is for link.
func (s *Spool) Changed() <-chan struct{} { return s.changed }

// Text is one line, or a part of one, to be stamped.
type Text struct {
	Bytes   []byte
	Partial bool
}

// Write stamps and appends lines in one write. When the disk refuses, the lines are dropped and
// counted, and the count is written as soon as the disk takes bytes again: the process never waits
// for an operator.
func (s *Spool) Write(rank int, stream byte, lines []Text) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(rank, stream, lines)
}

// put is write, mu held.
func (s *Spool) put(rank int, stream byte, lines []Text) {
	if s.closed || len(lines) == 0 {
		return
	}
	if now := s.clock.Now(); now.After(s.last) {
		s.last = now
	}
	s.buf = s.buf[:0]
	if s.dropped > 0 {
		s.buf = s.line(s.buf, s.rank, 'E', Text{Bytes: dropNotice(s.dropped)})
	}
	for _, l := range lines {
		s.buf = s.line(s.buf, rank, stream, l)
	}
	if err := s.commit(); err != nil {
		if s.dropped == 0 {
			s.log.Error("spool write failed; output is being dropped", "error", err)
		}
		s.dropped += int64(len(lines))
		s.lostEver += int64(len(lines))
		return
	}
	s.dropped = 0
}

func dropNotice(n int64) []byte {
	return []byte("[fermi] " + fault.T("the disk was full: %d [line|lines] of output [was|were] dropped here", "磁盘已满：此处丢弃了 %d 行输出", n).Pack())
}

func (s *Spool) line(dst []byte, rank int, stream byte, t Text) []byte {
	if s.mask != nil {
		t.Bytes = []byte(s.mask.Replace(string(t.Bytes)))
	}
	return logbook.AppendLine(dst, logbook.Line{Time: s.last, Rank: rank, Stream: stream, Partial: t.Partial, Text: t.Bytes})
}

// commit writes buf at the known end; mu held.
func (s *Spool) commit() error {
	if _, err := s.F.WriteAt(s.buf, s.size); err != nil {
		// What was written of it is beyond size; cut it off so that a successor sees no torn line.
		_ = s.F.Truncate(s.size)
		return err
	}
	s.size += int64(len(s.buf))
	s.poke()
	return nil
}

func (s *Spool) poke() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// First says which rank our own lines are shown as.
func (s *Spool) First(rank int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rank = rank
}

// Notice is a line of our own in the user's log.
func (s *Spool) Notice(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(s.rank, 'E', []Text{{Bytes: append([]byte("[fermi] "), fmt.Appendf(nil, format, args...)...)}})
}

// Close says that nothing more will come. The file stays open for reading.
func (s *Spool) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if s.dropped > 0 {
		s.buf = s.line(s.buf[:0], s.rank, 'E', Text{Bytes: dropNotice(s.dropped)})
		if s.commit() == nil {
			s.dropped = 0
		}
	}
	s.closed = true
	s.poke()
}

// Lost is how many lines the disk never took.
func (s *Spool) Lost() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lostEver
}
