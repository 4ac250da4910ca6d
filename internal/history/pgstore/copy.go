package pgstore

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// A copy is a text: a line that says what it is, then for each table its name, its rows as COPY
// writes them, and `\.`; a last line "end". It holds no password and no SQL.
const (
	copyHead = "fermi history copy 1 schema %d\n"
	copyEnd  = "\\.\n"
	copyLast = "end\n"
)

// copied are the tables in the order they can be filled in, with their columns. A table that came
// with a later schema says so, and so do columns: a copy of an earlier one has none of them.
var copied = []struct {
	table, columns string
	since          int    // the schema that brought the table
	more           string // columns that schema moreSince brought
	moreSince      int
}{
	{table: "events", columns: "seq, time, kind, project, name, object, type, reason, en, zh, actor, dedup"},
	{table: "audit", columns: "seq, time, actor, verb, kind, project, name, object, before, after, remote, outcome, dedup", more: ", token, session, request, detail, count, since, number, prev, hash", moreSince: 4},
	{table: "audit_head", columns: "id, number, hash, prev, anchor_rows, anchor_hash, anchor_time", since: 4},
	{table: "usage", columns: "replica, task, project, owner, zone, node, devices, type, cpu, memory, start, stop, exit_code, reason, cpu_time, peak_bytes, price_hour", more: ", thousandths, spot", moreSince: 3},
	{table: "books", columns: "zone, since, body", since: 3},
	{table: "runs", columns: runColumns, since: 3},
	{table: "archived", columns: "seq, kind, id, project, owner, name, sort_key, updated, phase, queue, labels, haystack, expires"},
	{table: "archived_body", columns: "seq, body"},
	{table: "points", columns: "task, name, replica, block, data", more: ", rank, generation, upto, made, n, first_step, last_step, first_time, last_time", moreSince: 5},
	{table: "point_outlines", columns: "task, name, replica, rank, generation, block, upto, made, n, first_step, last_step, first_time, last_time, data", since: 6},
	{table: "point_batches", columns: "task, replica, seq, data", since: 5},
	{table: "point_sources", columns: "task, replica, seq, waiting, bytes, dropped, known", since: 5},
	{table: "served", columns: servedColumns, since: 7},
	{table: "point_series", columns: "task, name, rank, generation, replica", since: 5},
}

// Backup writes a copy of one moment to a new file, while work goes on. Restore reads it.
func (s *Store) Backup(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fault.New(fault.Conflict, "FileExists", fault.T("%s exists already.", "%s 已存在。", path))
	}
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<16)
	err = s.copyTo(ctx, w)
	if err = errors.Join(err, w.Flush(), f.Sync(), f.Close()); err != nil {
		os.Remove(path)
		return s.sick(err)
	}
	return nil
}

func (s *Store) copyTo(ctx context.Context, w io.Writer) error {
	moment := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, s.pool, moment, func(tx pgx.Tx) error {
		schema, err := schemaOf(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, copyHead, schema); err != nil {
			return err
		}
		for _, c := range copied {
			if _, err := io.WriteString(w, c.table+"\n"); err != nil {
				return err
			}
			if _, err := tx.Conn().PgConn().CopyTo(ctx, w, "COPY "+c.table+" ("+c.columns+c.more+") TO STDOUT"); err != nil {
				return err
			}
			if _, err := io.WriteString(w, copyEnd); err != nil {
				return err
			}
		}
		_, err = io.WriteString(w, copyLast)
		return err
	})
}

// Restore fills an empty database from a copy, wholly or not at all.
func Restore(ctx context.Context, cfg Config, r io.Reader) error {
	s, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.sick(pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(lockMigrate)); err != nil {
			return err
		}
		schema, err := schemaOf(ctx, tx)
		if err != nil {
			return err
		}
		for _, c := range copied {
			if c.table == "audit_head" { // where the chain begins, even with nothing in it
				continue
			}
			var used bool
			if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM `+c.table+`)`).Scan(&used); err != nil {
				return err
			}
			if used {
				return fault.New(fault.Conflict, "HistoryNotEmpty", fault.T("The history database at %s holds rows already; nothing was changed.", "历史数据库 %s 已有数据，未做任何改动。", s.where)).
					WithHint(fault.T("Restore into a new database.", "请恢复到新的数据库。"))
			}
		}
		if _, err := tx.Exec(ctx, `DELETE FROM audit_head`); err != nil {
			return err
		}
		if err := fill(ctx, tx, newCopyReader(r), schema); err != nil {
			return err
		}
		return anchor(ctx, tx, s.cfg.Clock) // a copy from before the chain
	}))
}

func fill(ctx context.Context, tx pgx.Tx, from *copyReader, schema int) error {
	var heads []string
	for n := 1; n <= schema; n++ {
		heads = append(heads, fmt.Sprintf(copyHead, n))
	}
	head, err := from.expect(heads...)
	if err != nil {
		return err
	}
	was := head + 1 // the copy's schema
	for _, c := range copied {
		if c.since > was {
			continue
		}
		columns := c.columns
		if was >= c.moreSince {
			columns += c.more
		}
		if _, err := from.expect(c.table + "\n"); err != nil {
			return err
		}
		rows := from.table()
		_, err := tx.Conn().PgConn().CopyFrom(ctx, rows, "COPY "+c.table+" ("+columns+") FROM STDIN")
		if rows.err != nil {
			return rows.err
		}
		var pg *pgconn.PgError
		if errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23")) {
			return badCopy(err) // rows that don't fit their table
		}
		if err != nil {
			return err
		}
	}
	if _, err := from.expect(copyLast); err != nil {
		return err
	}
	if was < 3 { // as the migration does
		if _, err := tx.Exec(ctx, `UPDATE usage SET thousandths = devices * 1000`); err != nil {
			return err
		}
	}
	for _, table := range []string{"events", "audit", "archived"} { // new rows are numbered after the old
		if _, err := tx.Exec(ctx, fmt.Sprintf(`SELECT setval(pg_get_serial_sequence('%[1]s', 'seq'), GREATEST((SELECT max(seq) FROM %[1]s), 1))`, table)); err != nil {
			return err
		}
	}
	return nil
}

// copyReader takes a copy apart.
type copyReader struct{ r *bufio.Reader }

func newCopyReader(r io.Reader) *copyReader { return &copyReader{bufio.NewReaderSize(r, 1<<16)} }

// expect reads one line, which must be one of these, and says which.
func (c *copyReader) expect(want ...string) (int, error) {
	line, err := c.r.ReadSlice('\n')
	at := slices.Index(want, string(line))
	if err != nil || at < 0 {
		return 0, badCopy(fmt.Errorf("%.80q where %q should stand: %w", line, want, err))
	}
	return at, nil
}

// table reads the rows of one table, up to their end.
func (c *copyReader) table() *rowReader { return &rowReader{r: c.r, fresh: true} }

type rowReader struct {
	r     *bufio.Reader
	rest  []byte // of the line under way; belongs to r
	fresh bool   // the next byte begins a line
	done  bool
	err   error
}

// Read gives whole rows and nothing behind them; a copy that ends in the middle is an error.
func (t *rowReader) Read(p []byte) (int, error) {
	if t.err != nil {
		return 0, t.err
	}
	if len(t.rest) == 0 && !t.done {
		line, err := t.r.ReadSlice('\n')
		switch {
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			t.err = badCopy(fmt.Errorf("ends inside a table: %w", err))
			return 0, t.err
		case t.fresh && bytes.Equal(line, []byte(copyEnd)):
			t.done = true
		default:
			t.rest, t.fresh = line, err == nil
		}
	}
	if t.done {
		return 0, io.EOF
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

func badCopy(cause error) error {
	return fault.New(fault.Invalid, "BadHistoryCopy", fault.T(
		"This is not a whole copy of a history that this version knows; nothing was changed.", "这不是当前版本可识别的完整历史副本，未做任何改动。")).
		WithHint(fault.T("Restore it with the version of Fermi that made it.", "请使用创建它的 Fermi 版本恢复。")).Because(cause)
}
