package logbook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sort"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// cursor walks one stream: through the chunks as far as they go, then through memory.
type cursor struct {
	reader *reader
	stream *stream
	pos    int64 // of the next byte, always the beginning of a line
	limit  int64 // where this round ends
	skip   int   // lines to pass over first
	buf    []byte
	notice string // to be shown as a line before going on
	line   Line   // what next found
	last   time.Time

	file  io.ReadSeekCloser // the chunk being read, or nil
	chunk ref
	rawAt int64 // offset in the log of the frame that file stands at
}

// next moves to the next line; false at the round's end.
func (c *cursor) next(ctx context.Context) (bool, error) {
	for {
		switch {
		case c.notice != "":
			c.line = Line{Time: c.last, Rank: -1, Stream: 'E', Text: []byte(c.notice)}
			c.notice = ""
		case c.pos >= c.limit:
			return false, nil
		case len(c.buf) == 0:
			if err := c.fill(ctx); err != nil {
				return false, err
			}
			continue
		default:
			n := bytes.IndexByte(c.buf, '\n')
			raw := c.buf[:n:n]
			c.buf = c.buf[n+1:]
			c.pos += int64(n + 1)
			line, err := ParseLine(raw)
			if err != nil { // not ours to judge: show it as it is
				line = Line{Time: c.last, Rank: -1, Stream: 'E', Text: raw}
			}
			c.line = line
		}
		c.last = c.line.Time
		if c.skip == 0 {
			return true, nil
		}
		if !c.line.Partial {
			c.skip--
		}
	}
}

// fill gets whole lines at pos, from memory or from a chunk; or it sets a notice and moves pos.
func (c *cursor) fill(ctx context.Context) error {
	b, s := c.reader.book, c.stream
	b.mu.Lock()
	if s.task.deleted {
		b.mu.Unlock()
		return deletedFault(s.task.id)
	}
	if c.pos >= s.durable {
		i := sort.Search(len(s.blocks), func(i int) bool { return s.blocks[i].end() > c.pos })
		bl := s.blocks[i]
		c.buf = bl.data[c.pos-bl.start:]
		b.mu.Unlock()
		c.close()
		return nil
	}
	i := sort.Search(len(s.refs), func(i int) bool { return s.refs[i].end > c.pos })
	r := s.refs[i]
	b.mu.Unlock()
	if r.start > c.pos {
		c.notice = missing(s.prefix, c.pos, r.start)
		c.pos = r.start
		return nil
	}
	return c.fillFrom(ctx, r)
}

// fillFrom reads the frame of a chunk that holds pos.
func (c *cursor) fillFrom(ctx context.Context, r ref) error {
	err := c.open(ctx, r)
	for err == nil {
		var encoded, raw int
		if encoded, raw, err = readHead(c.file); err != nil {
			break
		}
		start, end := c.rawAt, c.rawAt+int64(raw)
		if end > r.end {
			err = errDamaged
			break
		}
		c.rawAt = end
		if end <= c.pos {
			_, err = c.file.Seek(int64(encoded), io.SeekCurrent)
			continue
		}
		if c.buf, err = readBody(c.reader.book.dec, c.file, encoded, raw); err != nil {
			break
		}
		c.buf = c.buf[c.pos-start:]
		if end == r.end || c.reader.files > maxFiles {
			c.close()
		}
		return ctx.Err()
	}
	c.close()
	if !errors.Is(err, errDamaged) && !fault.Is(err, fault.NotFound) {
		return err
	}
	c.reader.book.cfg.Log.Error("log chunk is damaged", slog.String("key", chunkKey(c.stream.prefix, r)), slog.Any("error", err))
	c.notice = damaged(chunkKey(c.stream.prefix, r), r.end-c.pos)
	c.pos = r.end
	return nil
}

// open makes file stand at a frame of chunk r that is not behind pos.
func (c *cursor) open(ctx context.Context, r ref) error {
	if c.file != nil && c.chunk == r && c.rawAt <= c.pos {
		return nil
	}
	c.close()
	file, _, err := c.reader.book.cfg.Blob.Open(ctx, chunkKey(c.stream.prefix, r))
	if err != nil {
		return err
	}
	c.file, c.chunk, c.rawAt = file, r, r.start
	c.reader.files++
	return nil
}

func (c *cursor) close() {
	if c.file != nil {
		c.file.Close()
		c.file = nil
		c.reader.files--
	}
}

func damaged(key string, n int64) string {
	return "[fermi] " + fault.T("log chunk %s is damaged; %d bytes are skipped", "日志块 %s 已损坏，跳过 %d 字节", key, n).Pack()
}

func missing(prefix string, from, to int64) string {
	return "[fermi] " + fault.T("bytes %d to %d of %s are missing", "日志 %[3]s 缺失第 %[1]d 至 %[2]d 字节", from, to, prefix).Pack()
}

// piece is a run of lines that begins at start.
type piece struct {
	start int64
	lines int
}

// tail places the cursor before the last n lines there are now, reading backwards from the end,
// and returns how many there are, at most n.
func (c *cursor) tail(ctx context.Context, n int) (int, error) {
	b, s := c.reader.book, c.stream
	b.mu.Lock()
	refs, blocks := slices.Clone(s.refs), slices.Clone(s.blocks)
	c.limit = s.end
	b.mu.Unlock()
	total := 0
	enough := func(p piece) bool {
		total += p.lines
		if total >= n {
			c.pos, c.skip = p.start, total-n
			return true
		}
		return false
	}
	for _, bl := range slices.Backward(blocks) {
		if enough(piece{bl.start, countLines(bl.data)}) {
			return n, nil
		}
	}
	for i, r := range slices.Backward(refs) {
		from := int64(0)
		if i > 0 {
			from = refs[i-1].end
		}
		pieces, err := c.scan(ctx, r, from)
		if err != nil {
			return 0, err
		}
		for _, p := range slices.Backward(pieces) {
			if enough(p) {
				return n, nil
			}
		}
	}
	return total, nil
}

// scan counts the lines of a chunk, frame by frame, as next will show them from offset from on.
func (c *cursor) scan(ctx context.Context, r ref, from int64) ([]piece, error) {
	probe := &cursor{reader: c.reader, stream: c.stream, pos: max(from, r.start), limit: r.end}
	defer probe.close()
	var out []piece
	if r.start > from {
		out = append(out, piece{from, 1})
	}
	for probe.pos < probe.limit {
		p := piece{probe.pos, 1}
		if err := probe.fillFrom(ctx, r); err != nil {
			return nil, err
		}
		if probe.notice == "" {
			p.lines = countLines(probe.buf)
			probe.pos += int64(len(probe.buf))
		}
		out = append(out, p)
	}
	return out, nil
}
