package sqlstore

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/history"
)

// maxText bounds one text column: longer ones are cut, for a row that is not written is worse.
const maxText = 1 << 20

func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "")
}

// limitOf is a page's size: what was asked for within 1..1000, 100 when nothing was.
func limitOf(n int) int {
	if n == 0 {
		return 100
	}
	return min(max(n, 1), maxLimit)
}

// AddEvents commits all or none. One whose dedup is known already is passed over.
func (s *Store) AddEvents(ctx context.Context, events ...history.Event) error {
	if len(events) == 0 {
		return nil
	}
	return s.write(ctx, func(ctx context.Context, w *writer) error {
		for _, e := range events {
			if e.Time.IsZero() {
				e.Time = s.cfg.Clock.Now()
			}
			var dedup any
			if e.Dedup != "" {
				dedup = e.Dedup
			}
			err := w.exec(ctx, `INSERT INTO events (time, kind, project, name, object, type, reason, en, zh, actor, dedup)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
				nanos(e.Time), string(e.Kind), e.Project, e.Name, e.ID, e.Type, e.Reason, cut(e.Message.EN), cut(e.Message.ZH), e.Actor, dedup)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// ListEvents is oldest first.
func (s *Store) ListEvents(ctx context.Context, q history.EventQuery) ([]history.Event, error) {
	where, args := `seq > ?`, []any{q.After}
	for _, c := range []struct{ column, value string }{{"object", q.ObjectID}, {"kind", string(q.Kind)}, {"project", q.Project}} {
		if c.value != "" {
			where += ` AND ` + c.column + ` = ?`
			args = append(args, c.value)
		}
	}
	direction := "ASC"
	if q.Newest {
		direction = "DESC"
	}
	var out []history.Event
	err := s.query(ctx, `SELECT seq, time, kind, project, name, object, type, reason, en, zh, actor FROM events
		WHERE `+where+` ORDER BY seq `+direction+` LIMIT ?`, append(args, limitOf(q.Limit)), func(r *sql.Rows) error {
		var e history.Event
		var at int64
		err := r.Scan(&e.Seq, &at, &e.Kind, &e.Project, &e.Name, &e.ID, &e.Type, &e.Reason, &e.Message.EN, &e.Message.ZH, &e.Actor)
		e.Time = fromNanos(at)
		out = append(out, e)
		return err
	})
	if q.Newest {
		slices.Reverse(out)
	}
	return out, err
}

// Trim deletes events older than before, a few thousand at a time so that others get their turn.
func (s *Store) Trim(ctx context.Context, before time.Time) error {
	for {
		var n int64
		err := s.write(ctx, func(ctx context.Context, w *writer) error {
			res, err := w.execResult(ctx, `DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE time < ? ORDER BY time LIMIT 2000)`, nanos(before))
			if err != nil {
				return err
			}
			n, err = res.RowsAffected()
			return err
		})
		if err != nil || n == 0 {
			return err
		}
	}
}
