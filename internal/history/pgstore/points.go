package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

// points keeps the curves of tasks. A batch is one message to the database; every so many are folded in a transaction of its
// own, which holds the row of their replica alone.
type points struct {
	link
	most int64 // blocks of a series before it is thinned
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
	names, ranks, generations := make([]string, len(b.Lines)), make([]int64, len(b.Lines)), make([]int64, len(b.Lines))
	for i, l := range b.Lines {
		names[i], ranks[i], generations[i] = l.Name, int64(l.Rank), l.Generation
	}
	// One statement: a source that has the number already makes no row, and then nothing else does. Series are looked at only
	// where the batch has others than the one before.
	const add = `WITH before AS (SELECT known FROM point_sources WHERE task = $1::text AND replica = $2::text),
		head AS (INSERT INTO point_sources AS s (task, replica, seq, waiting, bytes, dropped, known) VALUES ($1::text, $2::text, $3::bigint, 1, octet_length($4::bytea), $5::bigint, $6::bigint)
			ON CONFLICT (task, replica) DO UPDATE SET seq = excluded.seq, waiting = s.waiting + 1, bytes = s.bytes + excluded.bytes, dropped = excluded.dropped, known = excluded.known
			WHERE s.seq < excluded.seq RETURNING waiting, bytes),
		row AS (INSERT INTO point_batches (task, replica, seq, data) SELECT $1::text, $2::text, $3::bigint, $4::bytea FROM head),
		series AS (INSERT INTO point_series (task, name, rank, generation, replica)
			SELECT DISTINCT $1::text, name, rank, generation, $2::text FROM unnest($7::text[], $8::bigint[], $9::bigint[]) AS one (name, rank, generation)
			WHERE EXISTS (SELECT 1 FROM head) AND NOT EXISTS (SELECT 1 FROM before WHERE known = $6::bigint) ON CONFLICT DO NOTHING)
		SELECT waiting, bytes FROM head`
	full, err := read(ctx, s.link, add, []any{b.TaskID, b.Replica, b.Seq, data, b.Dropped, b.Known(), names, ranks, generations}, func(r pgx.Rows) (bool, error) {
		var waiting, bytes int64
		err := r.Scan(&waiting, &bytes)
		return waiting >= history.FoldRows || bytes >= history.FoldBytes, err
	})
	if err != nil || len(full) == 0 || !full[0] {
		return err
	}
	err = s.fold(ctx, cleanText(b.TaskID), cleanText(b.Replica))
	if fault.Is(err, fault.Internal) {
		return err // a row that can't be understood: somebody must hear of it
	}
	return nil // the batch is committed; the next one folds
}

// fold moves the points of all batches of a replica into blocks of their series.
func (s *points) fold(ctx context.Context, task, replica string) error {
	return s.within(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var all history.Gathered
		// Who folds, or adds, holds the row of the source.
		for _, st := range []statement{
			{`SET LOCAL idle_in_transaction_session_timeout = '10s'`, nil},
			{`UPDATE point_sources SET waiting = 0, bytes = 0 WHERE task = $1 AND replica = $2`, []any{task, replica}},
		} {
			if _, err := tx.Exec(ctx, st.sql, st.args...); err != nil {
				return err
			}
		}
		rows, err := tx.Query(ctx, `SELECT seq, data FROM point_batches WHERE task = $1 AND replica = $2 ORDER BY seq`, task, replica)
		if err != nil {
			return err
		}
		var seq int64
		var data []byte
		if _, err := pgx.ForEachRow(rows, []any{&seq, &data}, func() error { return damaged(all.Add(replica, seq, data)) }); err != nil {
			return err
		}
		var b pgx.Batch
		if err := all.Each(func(one history.Series, points []history.Point) error {
			return s.grow(ctx, tx, &b, task, one, points, all.Upto)
		}); err != nil {
			return err
		}
		b.Queue(`DELETE FROM point_batches WHERE task = $1 AND replica = $2 AND seq <= $3`, task, replica, all.Upto)
		return tx.SendBatch(ctx, &b).Close()
	})
}

// blocksOrOutlines are the blocks of a series in order, those that lie inside four bounds by their outline where they have one.
const blocksOrOutlines = `WITH short AS (SELECT * FROM point_outlines WHERE task = $1 AND name = $2 AND replica = $3 AND rank = $4 AND generation = $5
		AND first_step >= $6::bigint AND last_step <= $7::bigint AND first_time >= $8::bigint AND last_time <= $9::bigint)
	SELECT upto, made, n, first_step, last_step, first_time, last_time, data, outlined FROM (
		SELECT block, upto, made, n, first_step, last_step, first_time, last_time, data, true AS outlined FROM short
		UNION ALL
		SELECT block, upto, made, n, first_step, last_step, first_time, last_time, data, false FROM points
			WHERE task = $1 AND name = $2 AND replica = $3 AND rank = $4 AND generation = $5 AND block NOT IN (SELECT block FROM short)
	) AS blocks ORDER BY block`

const ofSeries = ` FROM points WHERE task = $1 AND name = $2 AND replica = $3 AND rank = $4 AND generation = $5 `

func keyOf(task string, s history.Series) []any {
	return []any{task, s.Name, s.Replica, s.Rank, s.Generation}
}

// grow queues what continues a series.
func (s *points) grow(ctx context.Context, tx pgx.Tx, b *pgx.Batch, task string, one history.Series, points []history.Point, upto int64) error {
	var number int64
	var last *history.Block
	var have history.Block
	err := tx.QueryRow(ctx, `SELECT block, made, n, data`+ofSeries+`ORDER BY block DESC LIMIT 1`, keyOf(task, one)...).Scan(&number, &have.Made, &have.Count, &have.Data)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
	case err != nil:
		return err
	case have.Count >= history.MaxBlock:
		number++
	default:
		last = &have
	}
	blocks, err := history.Grow(last, points)
	if err != nil {
		return damaged(err)
	}
	if number+int64(len(blocks)) >= s.most {
		rows, err := tx.Query(ctx, `SELECT made, n, data`+ofSeries+`AND block < $6 ORDER BY block`, append(keyOf(task, one), number)...)
		if err != nil {
			return err
		}
		var all []history.Block
		var row history.Block
		if _, err := pgx.ForEachRow(rows, []any{&row.Made, &row.Count, &row.Data}, func() error {
			all = append(all, row)
			row.Data = nil
			return nil
		}); err != nil {
			return err
		}
		if blocks, err = history.Thin(append(all, blocks...)); err != nil {
			return damaged(err)
		}
		b.Queue(`DELETE`+ofSeries, keyOf(task, one)...)
		b.Queue(`DELETE FROM point_outlines WHERE task = $1 AND name = $2 AND replica = $3 AND rank = $4 AND generation = $5`, keyOf(task, one)...)
		number = 0
	}
	outlines, err := history.Outlines(blocks)
	if err != nil {
		return damaged(err)
	}
	put := func(table string, i int, block history.Block) {
		b.Queue(`INSERT INTO `+table+` (task, name, replica, rank, generation, block, upto, made, n, first_step, last_step, first_time, last_time, data)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT (task, name, replica, rank, generation, block) DO UPDATE SET
			upto = excluded.upto, made = excluded.made, n = excluded.n, first_step = excluded.first_step, last_step = excluded.last_step,
			first_time = excluded.first_time, last_time = excluded.last_time, data = excluded.data`,
			append(keyOf(task, one), number+int64(i), upto, block.Made, block.Count, block.FirstStep, block.LastStep, block.FirstTime, block.LastTime, block.Data)...)
	}
	for i, block := range blocks {
		put("points", i, block)
		if short, ok := outlines[i]; ok {
			put("point_outlines", i, short)
		}
	}
	return nil
}

// within runs a transaction, which leaves everything as it is when the connection is lost.
func (s *points) within(ctx context.Context, do func(ctx context.Context, tx pgx.Tx) error) error {
	return s.try(ctx, true, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return do(ctx, tx) })
	})
}

// Series lists the curves of a task.
func (s *points) Series(ctx context.Context, taskID string) (list []history.Series, dropped int64, err error) {
	list, err = read(ctx, s.link, `SELECT name, replica, rank, generation FROM point_series WHERE task = $1 ORDER BY name, rank, generation, replica`, []any{taskID}, func(r pgx.Rows) (one history.Series, err error) {
		err = r.Scan(&one.Name, &one.Replica, &one.Rank, &one.Generation)
		return one, err
	})
	if err != nil {
		return nil, 0, err
	}
	sums, err := read(ctx, s.link, `SELECT COALESCE(SUM(dropped), 0)::bigint FROM point_sources WHERE task = $1`, []any{taskID}, func(r pgx.Rows) (n int64, err error) {
		err = r.Scan(&n)
		return n, err
	})
	if err != nil {
		return nil, 0, err
	}
	return list, sums[0], nil
}

// numbered are packed points, and the number of the last batch in them.
type numbered struct {
	seq int64
	history.Block
}

// Points hands out the blocks of a series. Batches are read before blocks: what is folded meanwhile is in both, and known by
// its number.
func (s *points) Points(ctx context.Context, taskID string, one history.Series, in history.Span, each func(history.Block) error) error {
	batches, err := read(ctx, s.link, `SELECT seq, data FROM point_batches WHERE task = $1 AND replica = $2 ORDER BY seq`, []any{taskID, one.Replica}, func(r pgx.Rows) (b numbered, err error) {
		err = r.Scan(&b.seq, &b.Data)
		return b, err
	})
	if err != nil {
		return err
	}
	tail := history.Tail{Of: one, In: in}
	for _, b := range batches {
		if err := tail.Add(b.seq, b.Data); err != nil {
			return damaged(err)
		}
	}
	query, args := `SELECT upto, made, n, first_step, last_step, first_time, last_time, data, false`+ofSeries+`ORDER BY block`, keyOf(taskID, one)
	if in.Outlines {
		query = blocksOrOutlines
		for _, bound := range in.Bounds() {
			args = append(args, bound)
		}
	}
	blocks, err := read(ctx, s.link, query, args, func(r pgx.Rows) (b numbered, err error) {
		err = r.Scan(&b.seq, &b.Made, &b.Count, &b.FirstStep, &b.LastStep, &b.FirstTime, &b.LastTime, &b.Data, &b.Outlined)
		return b, err
	})
	if err != nil {
		return err
	}
	for _, b := range blocks {
		if tail.Skip(b.seq); !in.Touches(b.Extent) {
			continue
		}
		if err := each(b.Block); err != nil {
			return err
		}
	}
	return tail.Each(each)
}

// ForgetPoints deletes all points of tasks.
func (s *points) ForgetPoints(ctx context.Context, taskIDs ...string) error {
	return s.within(ctx, func(ctx context.Context, tx pgx.Tx) error {
		for _, table := range []string{"points", "point_outlines", "point_batches", "point_sources", "point_series"} {
			if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE task = ANY ($1)`, clean([]any{taskIDs})...); err != nil {
				return err
			}
		}
		return nil
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
