package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/history"
)

const servedColumns = `width, start, service_id, gateway, key, revision, project, service, requests, errors, refused, slow, tokens, begun`

// served keeps what gateways carried.
type served struct {
	write func(ctx context.Context, do func(ctx context.Context, w *writer) error) error
	query func(ctx context.Context, query string, args []any, scan func(*sql.Rows) error) error
}

// PutServed replaces rows by what names them.
func (s *served) PutServed(ctx context.Context, rows ...serving.Served) error {
	if len(rows) == 0 {
		return nil
	}
	return s.write(ctx, func(ctx context.Context, w *writer) error {
		for _, r := range rows {
			begun, err := json.Marshal(r.Begun)
			if err != nil {
				return err
			}
			if err := w.exec(ctx, `INSERT OR REPLACE INTO served (`+servedColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
				int64(r.Width), nanos(r.Start), r.ServiceID, r.Gateway, r.Key, r.Revision, r.Project, r.Service, r.Requests, r.Errors, r.Refused, r.Slow, r.Tokens, string(begun)); err != nil {
				return err
			}
		}
		return nil
	})
}

// EachServed walks the rows of a span.
func (s *served) EachServed(ctx context.Context, q history.ServedQuery, f func(serving.Served)) error {
	return q.Pages(f, func(after *serving.Served) (out []serving.Served, err error) {
		where, args := q.Page(after, nanos, func(int) string { return "?" })
		err = s.query(ctx, `SELECT `+servedColumns+` FROM served WHERE `+where, args, func(r *sql.Rows) error {
			var one serving.Served
			var width, start int64
			var begun string
			if err := r.Scan(&width, &start, &one.ServiceID, &one.Gateway, &one.Key, &one.Revision, &one.Project, &one.Service, &one.Requests, &one.Errors, &one.Refused, &one.Slow, &one.Tokens, &begun); err != nil {
				return err
			}
			one.Width, one.Start = serving.Width(width), fromNanos(start)
			out = append(out, one)
			return json.Unmarshal([]byte(begun), &out[len(out)-1].Begun)
		})
		return out, err
	})
}

// SumServed adds the rows of a span up.
func (s *served) SumServed(ctx context.Context, q history.ServedQuery) (map[string]serving.ServedCount, error) {
	out := map[string]serving.ServedCount{}
	where, args := q.Where(nanos, func(int) string { return "?" })
	err := s.query(ctx, `SELECT `+history.SumColumns+` FROM served WHERE `+where+` GROUP BY key`, args, func(r *sql.Rows) error {
		var key string
		var c serving.ServedCount
		err := r.Scan(&key, &c.Requests, &c.Errors, &c.Refused, &c.Slow, &c.Tokens)
		out[key] = c
		return err
	})
	return out, err
}

// ForgetMinutes deletes the rows of minutes before a time.
func (s *served) ForgetMinutes(ctx context.Context, before time.Time) error {
	return s.write(ctx, func(ctx context.Context, w *writer) error {
		return w.exec(ctx, `DELETE FROM served WHERE width = ? AND start < ?`, int64(serving.Minute), nanos(before))
	})
}
