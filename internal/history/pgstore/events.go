package pgstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fermi-cluster/fermi/internal/history"
)

// AddEvents commits all or none. One whose dedup is known already is passed over.
func (s *Store) AddEvents(ctx context.Context, events ...history.Event) error {
	if len(events) == 0 {
		return nil
	}
	all := make([]statement, len(events))
	for i, e := range events {
		if e.Time.IsZero() {
			e.Time = s.cfg.Clock.Now()
		}
		dedup := "=" + e.Dedup
		if e.Dedup == "" {
			dedup = once()
		}
		all[i] = statement{`INSERT INTO events (time, kind, project, name, object, type, reason, en, zh, actor, dedup)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING`,
			[]any{nanos(e.Time), string(e.Kind), e.Project, e.Name, e.ID, e.Type, cut(e.Reason), cut(e.Message.EN), cut(e.Message.ZH), e.Actor, dedup}}
	}
	return s.inOrder(ctx, s.events, lockEvents, all)
}

// once is the key of a row whose writer gave none: repeating the write does not repeat the row.
func once() string { return "~" + rand.Text() }

// ListEvents is oldest first.
func (s *Store) ListEvents(ctx context.Context, q history.EventQuery) ([]history.Event, error) {
	where, args := `seq > $1`, []any{q.After}
	for _, c := range []struct{ column, value string }{{"object", q.ObjectID}, {"kind", string(q.Kind)}, {"project", q.Project}} {
		if c.value != "" {
			args = append(args, c.value)
			where += fmt.Sprintf(` AND %s = $%d`, c.column, len(args))
		}
	}
	direction := "ASC"
	if q.Newest {
		direction = "DESC"
	}
	out, err := read(ctx, s.link, fmt.Sprintf(`SELECT seq, time, kind, project, name, object, type, reason, en, zh, actor FROM events
		WHERE %s ORDER BY seq %s LIMIT %d`, where, direction, limitOf(q.Limit)), args, func(r pgx.Rows) (e history.Event, err error) {
		var at int64
		err = r.Scan(&e.Seq, &at, &e.Kind, &e.Project, &e.Name, &e.ID, &e.Type, &e.Reason, &e.Message.EN, &e.Message.ZH, &e.Actor)
		e.Time = fromNanos(at)
		return e, err
	})
	if q.Newest {
		slices.Reverse(out)
	}
	return out, err
}
