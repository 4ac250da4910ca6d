package sqlstore

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

const (
	maxBlock      = 256 // points in a row of the table
	defaultPoints = 10_000
	maxPoints     = 1_000_000
)

// AddPoints appends to a series: the last block is filled up, then new ones begin.
func (s *Store) AddPoints(ctx context.Context, taskID, name, replica string, points ...history.Point) error {
	for _, p := range points {
		if y := p.Time.Year(); y < 1700 || y > 2200 {
			return fault.New(fault.Invalid, "BadTime", fault.T("A point's time is out of range.", "数据点的时间超出范围。"))
		}
	}
	if len(points) == 0 {
		return nil
	}
	return s.write(ctx, func(ctx context.Context, w *writer) error {
		block, have, err := w.lastBlock(ctx, taskID, name, replica)
		if err != nil {
			return err
		}
		for rest := points; len(rest) > 0; {
			if len(have) == maxBlock {
				block, have = block+1, nil
			}
			n := min(maxBlock-len(have), len(rest))
			have, rest = append(have, rest[:n]...), rest[n:]
			if err := w.exec(ctx, `INSERT INTO points (task, name, replica, block, n, data) VALUES (?, ?, ?, ?, ?, ?)
				ON CONFLICT (task, name, replica, block) DO UPDATE SET n = excluded.n, data = excluded.data`,
				taskID, name, replica, block, len(have), encodePoints(have)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *writer) lastBlock(ctx context.Context, taskID, name, replica string) (block int64, have []history.Point, err error) {
	err = w.query(ctx, `SELECT block, data FROM points WHERE task = ? AND name = ? AND replica = ? ORDER BY block DESC LIMIT 1`,
		[]any{taskID, name, replica}, func(r *sql.Rows) error {
			var data sql.RawBytes
			if err := r.Scan(&block, &data); err != nil {
				return err
			}
			var err error
			have, err = decodePoints(data)
			return err
		})
	return block, have, err
}

// Points gives the last limit points in the order they were added.
func (s *Store) Points(ctx context.Context, taskID, name, replica string, limit int) ([]history.Point, error) {
	if limit <= 0 {
		limit = defaultPoints
	}
	limit = min(limit, maxPoints)
	// Blocks but the last are full, so that this many hold enough.
	var blocks [][]history.Point
	err := s.query(ctx, `SELECT data FROM points WHERE task = ? AND name = ? AND replica = ? ORDER BY block DESC LIMIT ?`,
		[]any{taskID, name, replica, limit/maxBlock + 2}, func(r *sql.Rows) error {
			var data sql.RawBytes
			if err := r.Scan(&data); err != nil {
				return err
			}
			points, err := decodePoints(data)
			blocks = append(blocks, points)
			return err
		})
	slices.Reverse(blocks)
	all := slices.Concat(blocks...)
	return all[max(0, len(all)-limit):], err
}

// Series lists the names known for a task.
func (s *Store) Series(ctx context.Context, taskID string) ([]string, error) {
	var out []string
	err := s.query(ctx, `SELECT DISTINCT name FROM points WHERE task = ? ORDER BY name`, []any{taskID}, func(r *sql.Rows) error {
		var name string
		err := r.Scan(&name)
		out = append(out, name)
		return err
	})
	return out, err
}

// A block is a version, a count, and for each point how far time and step moved differently than
// before, and which bits of the value changed: steady series take four bytes a point.
const pointsVersion = 1

func encodePoints(points []history.Point) []byte {
	out := binary.AppendUvarint([]byte{pointsVersion}, uint64(len(points)))
	var t, step, dt, dstep int64
	var value uint64
	for _, p := range points {
		// Differences wrap around and wrap back: no value is out of range.
		nt, ns, nv := p.Time.UnixNano(), p.Step, math.Float64bits(p.Value)
		out = binary.AppendVarint(out, (nt-t)-dt)
		out = binary.AppendVarint(out, (ns-step)-dstep)
		out = binary.AppendUvarint(out, bits.Reverse64(nv^value)) // what changes stands at the top
		t, step, dt, dstep, value = nt, ns, nt-t, ns-step, nv
	}
	return out
}

var errPoints = errors.New("sqlstore: damaged block of points")

func decodePoints(b []byte) ([]history.Point, error) {
	if len(b) < 2 || b[0] != pointsVersion {
		return nil, errPoints
	}
	b = b[1:]
	count, n := binary.Uvarint(b)
	if n <= 0 || count > maxBlock {
		return nil, errPoints
	}
	b = b[n:]
	out := make([]history.Point, 0, maxBlock)
	var t, step, dt, dstep int64
	var value uint64
	for range count {
		moved, n1 := binary.Varint(b)
		if n1 <= 0 {
			return nil, errPoints
		}
		stepped, n2 := binary.Varint(b[n1:])
		if n2 <= 0 {
			return nil, errPoints
		}
		changed, n3 := binary.Uvarint(b[n1+n2:])
		if n3 <= 0 {
			return nil, errPoints
		}
		b = b[n1+n2+n3:]
		dt, dstep = dt+moved, dstep+stepped
		t, step, value = t+dt, step+dstep, value^bits.Reverse64(changed)
		out = append(out, history.Point{Time: time.Unix(0, t).UTC(), Step: step, Value: math.Float64frombits(value)})
	}
	if len(b) != 0 {
		return nil, errPoints
	}
	return out, nil
}
