package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/history"
)

// AddAudit commits all or none. The chain's head is read and moved in the same transaction, which begins with
// the write lock: whoever else writes to the file comes before or after.
func (s *Store) AddAudit(ctx context.Context, entries ...history.AuditEntry) error {
	if len(entries) == 0 {
		return nil
	}
	return s.write(ctx, func(ctx context.Context, w *writer) error {
		var number int64
		var hash string
		if err := w.query(ctx, `SELECT number, hash FROM audit_head`, nil, func(r *sql.Rows) error { return r.Scan(&number, &hash) }); err != nil {
			return err
		}
		if hash == "" {
			return errors.New("the audit's chain has lost its head")
		}
		for _, e := range entries {
			e.Link(number, hash)
			number, hash = e.Number, e.Hash
			if err := w.exec(ctx, `INSERT INTO audit (`+history.AuditColumns+`, number, prev, hash)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, append(history.AuditValues(&e, nanos), e.Number, e.Prev, e.Hash)...); err != nil {
				return err
			}
		}
		return w.exec(ctx, `UPDATE audit_head SET number = ?, hash = ?`, number, hash)
	})
}

// ListAudit is newest first unless the query says otherwise.
func (s *Store) ListAudit(ctx context.Context, q history.AuditQuery) ([]history.AuditEntry, error) {
	where, args := history.AuditWhere(q, nanos, func(int) string { return "?" })
	direction := "DESC"
	if q.Oldest {
		direction = "ASC"
	}
	var out []history.AuditEntry
	err := s.query(ctx, `SELECT seq, `+history.AuditColumns+`, number, prev, hash FROM audit
		WHERE `+where+` ORDER BY seq `+direction+` LIMIT ?`, append(args, limitOf(q.Limit)), func(r *sql.Rows) error {
		e, err := history.AuditRow(r.Scan, fromNanos)
		out = append(out, e)
		return err
	})
	return out, err
}

// AuditHead is the newest entry of the chain.
func (s *Store) AuditHead(ctx context.Context) (h api.AuditHead, err error) {
	err = s.query(ctx, history.AuditHeadQuery, nil, func(r *sql.Rows) (err error) {
		h, err = history.AuditHeadRow(r.Scan, fromNanos)
		return err
	})
	return h, err
}

// anchor begins the chain where it has not begun: entries that are there already keep their rows as they are,
// and their hash is where the chain starts.
func anchor(ctx context.Context, conn *sql.Conn, clk clock.Clock) (err error) {
	tx, err := conn.BeginTx(ctx, nil) // takes the write lock
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	var there bool
	if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM audit_head)`).Scan(&there); err != nil || there {
		return err
	}
	rows, err := tx.QueryContext(ctx, `SELECT seq, `+history.AuditColumns+`, number, prev, hash FROM audit ORDER BY seq`)
	if err != nil {
		return err
	}
	defer rows.Close()
	hash, n, err := history.RollAudit(rows, fromNanos)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, bind(`INSERT INTO audit_head (id, number, hash, anchor_rows, anchor_hash, anchor_time) VALUES (1, 0, ?, ?, ?, ?)`),
		hash, n, hash, nanos(clk.Now())); err != nil {
		return err
	}
	return tx.Commit()
}
