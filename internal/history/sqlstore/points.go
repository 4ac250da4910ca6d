package sqlstore

import (
	"context"
	"database/sql"
	"slices"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

const (
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
			if len(have) == history.MaxBlock {
				block, have = block+1, nil
			}
			n := min(history.MaxBlock-len(have), len(rest))
			have, rest = append(have, rest[:n]...), rest[n:]
			if err := w.exec(ctx, `INSERT INTO points (task, name, replica, block, n, data) VALUES (?, ?, ?, ?, ?, ?)
				ON CONFLICT (task, name, replica, block) DO UPDATE SET n = excluded.n, data = excluded.data`,
				taskID, name, replica, block, len(have), history.EncodePoints(have)); err != nil {
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
			have, err = history.DecodePoints(data)
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
		[]any{taskID, name, replica, limit/history.MaxBlock + 2}, func(r *sql.Rows) error {
			var data sql.RawBytes
			if err := r.Scan(&data); err != nil {
				return err
			}
			points, err := history.DecodePoints(data)
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
