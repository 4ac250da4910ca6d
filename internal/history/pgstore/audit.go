package pgstore

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/history"
)

// addAudit moves the chain's head and writes the entry behind it in one statement: the database itself makes
// the hash (as api.AuditEntry.Link does), so that the whole write stays one message and a server that is
// paused holds nobody up. $18 is the entry's digest, $19 its key: a write that is repeated finds it and does
// nothing.
var addAudit = `WITH head AS (
	UPDATE audit_head SET number = number + 1, prev = hash,
		hash = encode(sha256(decode(hash, 'hex') || int8send(number + 1) || decode($18, 'hex')), 'hex')
	WHERE NOT EXISTS (SELECT 1 FROM audit WHERE dedup = $19)
	RETURNING number, prev, hash)
INSERT INTO audit (` + history.AuditColumns + `, dedup, number, prev, hash)
SELECT $1::bigint, ` + texts(2, 15) + `, $16::bigint, $17::bigint, $19::text, number, prev, hash FROM head`

func texts(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		if i > from {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "$%d::text", i)
	}
	return b.String()
}

// AddAudit commits all or none.
func (s *Store) AddAudit(ctx context.Context, entries ...history.AuditEntry) error {
	if len(entries) == 0 {
		return nil
	}
	all := make([]statement, len(entries))
	for i := range entries {
		digest := entries[i].Digest()
		all[i] = statement{addAudit, append(history.AuditValues(&entries[i], nanos), hex.EncodeToString(digest[:]), once())}
	}
	// Without a head nothing was written, and nothing but this says so.
	all = append(all, statement{`SELECT 1 / count(*) FROM audit_head`, nil})
	return s.inOrder(ctx, s.audit, lockAudit, all)
}

// ListAudit is newest first unless the query says otherwise.
func (s *Store) ListAudit(ctx context.Context, q history.AuditQuery) ([]history.AuditEntry, error) {
	where, args := history.AuditWhere(q, nanos, func(n int) string { return fmt.Sprintf("$%d", n) })
	direction := "DESC"
	if q.Oldest {
		direction = "ASC"
	}
	return read(ctx, s.link, fmt.Sprintf(`SELECT seq, %s, number, prev, hash FROM audit
		WHERE %s ORDER BY seq %s LIMIT %d`, history.AuditColumns, where, direction, limitOf(q.Limit)), args, func(r pgx.Rows) (history.AuditEntry, error) {
		return history.AuditRow(r.Scan, fromNanos)
	})
}

// AuditHead is the newest entry of the chain.
func (s *Store) AuditHead(ctx context.Context) (api.AuditHead, error) {
	heads, err := read(ctx, s.link, history.AuditHeadQuery, nil, func(r pgx.Rows) (api.AuditHead, error) { return history.AuditHeadRow(r.Scan, fromNanos) })
	if err != nil || len(heads) == 0 {
		return api.AuditHead{}, err
	}
	return heads[0], nil
}

// anchor begins the chain where it has not begun: entries that are there already keep their rows as they are,
// and their hash is where the chain starts. It runs where the schema is brought up to date, alone; the lock
// keeps out servers of an older version, which may still write.
func anchor(ctx context.Context, tx pgx.Tx, clk clock.Clock) error {
	var there bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM audit_head)`).Scan(&there); err != nil || there {
		return err
	}
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(lockAudit)); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, `SELECT seq, `+history.AuditColumns+`, number, prev, hash FROM audit ORDER BY seq`)
	if err != nil {
		return err
	}
	defer rows.Close()
	hash, n, err := history.RollAudit(rows, fromNanos)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO audit_head (id, number, hash, anchor_rows, anchor_hash, anchor_time) VALUES (1, 0, $1, $2, $3, $4)`,
		hash, n, hash, nanos(clk.Now()))
	return err
}
