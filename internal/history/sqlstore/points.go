package sqlstore

import (
	"bytes"
	"context"
	"database/sql"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

// points keeps the curves of tasks. A batch is one row and a change of its replica's; every so many are folded, in the
// transaction of the one that makes them so many.
type points struct {
	write func(ctx context.Context, do func(ctx context.Context, w *writer) error) error
	query func(ctx context.Context, query string, args []any, scan func(*sql.Rows) error) error
	most  int // blocks of a series before it is thinned
}

// AddPoints commits a batch once.
func (s *points) AddPoints(ctx context.Context, b history.Batch) error {
	if err := b.Check(); err != nil {
		return err
	}
	if len(b.Lines) == 0 {
		return nil
	}
	data := history.EncodeLines(b.Lines)
	if len(data) > history.MaxBatch {
		return fault.New(fault.TooLarge, "BatchTooLarge", fault.T("A batch of points has over %d bytes.", "数据点批次超过 %d 字节。", history.MaxBatch))
	}
	return s.write(ctx, func(ctx context.Context, w *writer) error { return w.addBatch(ctx, b, data, s.most) })
}

// source is what is known of a replica that hands over points.
type source struct {
	seq, waiting, bytes, known int64
	there                      bool
}

func (w *writer) addBatch(ctx context.Context, b history.Batch, data []byte, most int) error {
	var at source
	err := w.query(ctx, `SELECT seq, waiting, bytes, known FROM point_sources WHERE task = ? AND replica = ?`, []any{b.TaskID, b.Replica}, func(r *sql.Rows) error {
		at.there = true
		return r.Scan(&at.seq, &at.waiting, &at.bytes, &at.known)
	})
	if err != nil || at.there && b.Seq <= at.seq {
		return err
	}
	if known := b.Known(); !at.there || known != at.known {
		for _, l := range b.Lines {
			if err := w.exec(ctx, `INSERT OR IGNORE INTO point_series (task, name, rank, generation, replica) VALUES (?, ?, ?, ?, ?)`,
				b.TaskID, l.Name, l.Rank, l.Generation, b.Replica); err != nil {
				return err
			}
		}
		at.known = known
	}
	if err := w.exec(ctx, `INSERT INTO point_batches (task, replica, seq, data) VALUES (?, ?, ?, ?)`, b.TaskID, b.Replica, b.Seq, data); err != nil {
		return err
	}
	at.waiting, at.bytes = at.waiting+1, at.bytes+int64(len(data))
	if at.waiting >= history.FoldRows || at.bytes >= history.FoldBytes {
		if err := w.foldBatches(ctx, b.TaskID, b.Replica, most); err != nil {
			return err
		}
		at.waiting, at.bytes = 0, 0
	}
	return w.exec(ctx, `INSERT INTO point_sources (task, replica, seq, waiting, bytes, dropped, known) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (task, replica) DO UPDATE SET seq = excluded.seq, waiting = excluded.waiting, bytes = excluded.bytes, dropped = excluded.dropped, known = excluded.known`,
		b.TaskID, b.Replica, b.Seq, at.waiting, at.bytes, b.Dropped, at.known)
}

// foldBatches moves the points of all batches of a replica into blocks of their series.
func (w *writer) foldBatches(ctx context.Context, task, replica string, most int) error {
	var all history.Gathered
	if err := w.query(ctx, `SELECT seq, data FROM point_batches WHERE task = ? AND replica = ? ORDER BY seq`, []any{task, replica}, func(r *sql.Rows) error {
		var seq int64
		var data sql.RawBytes
		if err := r.Scan(&seq, &data); err != nil {
			return err
		}
		return all.Add(replica, seq, data)
	}); err != nil {
		return err
	}
	if err := all.Each(func(s history.Series, points []history.Point) error {
		return w.growSeries(ctx, task, s, points, all.Upto, most)
	}); err != nil {
		return err
	}
	return w.exec(ctx, `DELETE FROM point_batches WHERE task = ? AND replica = ?`, task, replica)
}

// blocksOrOutlines are the blocks of a series in order, those that lie inside four bounds by their outline where they have one.
const blocksOrOutlines = `SELECT upto, made, n, first_step, last_step, first_time, last_time, data, outlined FROM (
	SELECT block, upto, made, n, first_step, last_step, first_time, last_time, data, 1 AS outlined FROM point_outlines
		WHERE task = ?1 AND name = ?2 AND replica = ?3 AND rank = ?4 AND generation = ?5 AND first_step >= ?6 AND last_step <= ?7 AND first_time >= ?8 AND last_time <= ?9
	UNION ALL
	SELECT block, upto, made, n, first_step, last_step, first_time, last_time, data, 0 FROM points
		WHERE task = ?1 AND name = ?2 AND replica = ?3 AND rank = ?4 AND generation = ?5 AND block NOT IN (SELECT block FROM point_outlines
			WHERE task = ?1 AND name = ?2 AND replica = ?3 AND rank = ?4 AND generation = ?5 AND first_step >= ?6 AND last_step <= ?7 AND first_time >= ?8 AND last_time <= ?9)
	) ORDER BY block`

const ofOutlines = ` FROM point_outlines WHERE task = ? AND name = ? AND replica = ? AND rank = ? AND generation = ? `

const ofSeries = ` FROM points WHERE task = ? AND name = ? AND replica = ? AND rank = ? AND generation = ? `

func keyOf(task string, s history.Series) []any {
	return []any{task, s.Name, s.Replica, s.Rank, s.Generation}
}

func (w *writer) growSeries(ctx context.Context, task string, s history.Series, points []history.Point, upto int64, most int) error {
	var number int64
	var last *history.Block
	if err := w.query(ctx, `SELECT block, made, n, data`+ofSeries+`ORDER BY block DESC LIMIT 1`, keyOf(task, s), func(r *sql.Rows) error {
		last = &history.Block{}
		return r.Scan(&number, &last.Made, &last.Count, &last.Data)
	}); err != nil {
		return err
	}
	if last != nil && last.Count >= history.MaxBlock {
		number, last = number+1, nil
	}
	blocks, err := history.Grow(last, points)
	if err != nil {
		return err
	}
	if err := w.putBlocks(ctx, task, s, number, upto, blocks); err != nil || number+int64(len(blocks)) < int64(most) {
		return err
	}
	var all []history.Block
	if err := w.query(ctx, `SELECT made, n, data`+ofSeries+`ORDER BY block`, keyOf(task, s), func(r *sql.Rows) error {
		var b history.Block
		err := r.Scan(&b.Made, &b.Count, &b.Data)
		all = append(all, b)
		return err
	}); err != nil {
		return err
	}
	if all, err = history.Thin(all); err != nil {
		return err
	}
	for _, q := range []string{`DELETE` + ofSeries, `DELETE` + ofOutlines} {
		if err := w.exec(ctx, q, keyOf(task, s)...); err != nil {
			return err
		}
	}
	return w.putBlocks(ctx, task, s, 0, upto, all)
}

func (w *writer) putBlocks(ctx context.Context, task string, s history.Series, number, upto int64, blocks []history.Block) error {
	outlines, err := history.Outlines(blocks)
	if err != nil {
		return err
	}
	put := func(table string, i int, b history.Block) error {
		return w.exec(ctx, `INSERT OR REPLACE INTO `+table+` (task, name, replica, rank, generation, block, upto, made, n, first_step, last_step, first_time, last_time, data)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, append(keyOf(task, s), number+int64(i), upto, b.Made, b.Count, b.FirstStep, b.LastStep, b.FirstTime, b.LastTime, b.Data)...)
	}
	for i, b := range blocks {
		if err := put("points", i, b); err != nil {
			return err
		}
		if short, ok := outlines[i]; ok {
			if err := put("point_outlines", i, short); err != nil {
				return err
			}
		}
	}
	return nil
}

// Series lists the curves of a task.
func (s *points) Series(ctx context.Context, taskID string) (list []history.Series, dropped int64, err error) {
	err = s.query(ctx, `SELECT name, replica, rank, generation FROM point_series WHERE task = ? ORDER BY name, rank, generation, replica`, []any{taskID}, func(r *sql.Rows) error {
		var one history.Series
		err := r.Scan(&one.Name, &one.Replica, &one.Rank, &one.Generation)
		list = append(list, one)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	err = s.query(ctx, `SELECT COALESCE(SUM(dropped), 0) FROM point_sources WHERE task = ?`, []any{taskID}, func(r *sql.Rows) error { return r.Scan(&dropped) })
	return list, dropped, err
}

// Points hands out the blocks of a series. Batches are read before blocks: what is folded meanwhile is in both, and known by
// its number.
func (s *points) Points(ctx context.Context, taskID string, one history.Series, in history.Span, each func(history.Block) error) error {
	tail := history.Tail{Of: one, In: in}
	if err := s.query(ctx, `SELECT seq, data FROM point_batches WHERE task = ? AND replica = ? ORDER BY seq`, []any{taskID, one.Replica}, func(r *sql.Rows) error {
		var seq int64
		var data sql.RawBytes
		if err := r.Scan(&seq, &data); err != nil {
			return err
		}
		return tail.Add(seq, data)
	}); err != nil {
		return err
	}
	query, args := `SELECT upto, made, n, first_step, last_step, first_time, last_time, data, 0`+ofSeries+`ORDER BY block`, keyOf(taskID, one)
	if in.Outlines {
		query = blocksOrOutlines
		for _, bound := range in.Bounds() {
			args = append(args, bound)
		}
	}
	if err := s.query(ctx, query, args, func(r *sql.Rows) error {
		var b history.Block
		var upto int64
		var data sql.RawBytes
		if err := r.Scan(&upto, &b.Made, &b.Count, &b.FirstStep, &b.LastStep, &b.FirstTime, &b.LastTime, &data, &b.Outlined); err != nil {
			return err
		}
		if tail.Skip(upto); !in.Touches(b.Extent) {
			return nil
		}
		b.Data = bytes.Clone(data)
		return each(b)
	}); err != nil {
		return err
	}
	return tail.Each(each)
}

// ForgetPoints deletes all points of tasks.
func (s *points) ForgetPoints(ctx context.Context, taskIDs ...string) error {
	if len(taskIDs) == 0 {
		return nil
	}
	return s.write(ctx, func(ctx context.Context, w *writer) error {
		for _, id := range taskIDs {
			for _, q := range []string{
				`DELETE FROM points WHERE task = ?`, `DELETE FROM point_outlines WHERE task = ?`, `DELETE FROM point_batches WHERE task = ?`, `DELETE FROM point_sources WHERE task = ?`, `DELETE FROM point_series WHERE task = ?`,
			} {
				if err := w.exec(ctx, q, id); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
