package pgstore

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

const (
	defaultPoints = 10_000
	maxPoints     = 1_000_000
)

// AddPoints appends to a series: the last block is filled up, then new ones begin. This is the one
// write that has to read first; the lock it holds meanwhile is this series' alone.
func (s *Store) AddPoints(ctx context.Context, taskID, name, replica string, points ...history.Point) error {
	for _, p := range points {
		if y := p.Time.Year(); y < 1700 || y > 2200 {
			return fault.New(fault.Invalid, "BadTime", fault.T("A point's time is out of range.", "数据点的时间超出范围。"))
		}
	}
	if len(points) == 0 {
		return nil
	}
	series := clean([]any{taskID, name, replica})
	return s.try(ctx, false, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return appendPoints(ctx, tx, series, points) })
	})
}

func appendPoints(ctx context.Context, tx pgx.Tx, series []any, points []history.Point) error {
	for _, st := range []statement{
		{`SET LOCAL idle_in_transaction_session_timeout = '10s'`, nil},
		{`SELECT pg_advisory_xact_lock(hashtextextended($1 || chr(31) || $2 || chr(31) || $3, 0))`, series},
	} {
		if _, err := tx.Exec(ctx, st.sql, st.args...); err != nil {
			return err
		}
	}
	rows, err := tx.Query(ctx, `SELECT block, data FROM points WHERE task = $1 AND name = $2 AND replica = $3 ORDER BY block DESC LIMIT 1`, series...)
	if err != nil {
		return err
	}
	var (
		block int64
		data  []byte
		have  []history.Point
	)
	if _, err := pgx.ForEachRow(rows, []any{&block, &data}, func() (err error) {
		have, err = history.DecodePoints(data)
		return damaged(err)
	}); err != nil {
		return err
	}
	var b pgx.Batch
	for rest := points; len(rest) > 0; {
		if len(have) == history.MaxBlock {
			block, have = block+1, nil
		}
		n := min(history.MaxBlock-len(have), len(rest))
		have, rest = append(have, rest[:n]...), rest[n:]
		b.Queue(`INSERT INTO points (task, name, replica, block, data) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (task, name, replica, block) DO UPDATE SET data = excluded.data`, append(slices.Clone(series), block, history.EncodePoints(have))...)
	}
	return tx.SendBatch(ctx, &b).Close()
}

// Points gives the last limit points in the order they were added.
func (s *Store) Points(ctx context.Context, taskID, name, replica string, limit int) ([]history.Point, error) {
	if limit <= 0 {
		limit = defaultPoints
	}
	limit = min(limit, maxPoints)
	// Blocks but the last are full, so that this many hold enough.
	blocks, err := read(ctx, s, `SELECT data FROM points WHERE task = $1 AND name = $2 AND replica = $3 ORDER BY block DESC LIMIT $4`,
		[]any{taskID, name, replica, limit/history.MaxBlock + 2}, func(r pgx.Rows) ([]history.Point, error) {
			var data []byte
			if err := r.Scan(&data); err != nil {
				return nil, err
			}
			points, err := history.DecodePoints(data)
			return points, damaged(err)
		})
	slices.Reverse(blocks)
	all := slices.Concat(blocks...)
	return all[max(0, len(all)-limit):], err
}

// Series lists the names known for a task.
func (s *Store) Series(ctx context.Context, taskID string) ([]string, error) {
	return read(ctx, s, `SELECT DISTINCT name FROM points WHERE task = $1 ORDER BY name`, []any{taskID}, func(r pgx.Rows) (name string, err error) {
		err = r.Scan(&name)
		return name, err
	})
}

// damaged is a row that somebody else has written to: trying again does not help.
func damaged(err error) error {
	if err == nil {
		return nil
	}
	return fault.New(fault.Internal, "HistoryDamaged", fault.T(
		"The history database holds a row that can't be understood.", "历史数据库中有无法识别的记录。")).
		WithHint(fault.T("Restore it from a backup.", "请从备份恢复。")).Because(err)
}
