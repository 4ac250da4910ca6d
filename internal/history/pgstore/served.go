package pgstore

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/history"
)

const servedColumns = `width, start, service_id, gateway, key, revision, project, service, requests, errors, refused, slow, tokens, begun`

// served keeps what gateways carried.
type served struct{ link }

// PutServed replaces rows by what names them.
func (s *served) PutServed(ctx context.Context, rows ...serving.Served) error {
	all := make([]statement, len(rows))
	for i, r := range rows {
		begun, err := json.Marshal(r.Begun)
		if err != nil {
			return err
		}
		all[i] = statement{`INSERT INTO served (` + servedColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
			ON CONFLICT (width, start, service_id, gateway, key, revision) DO UPDATE SET project = excluded.project, service = excluded.service, requests = excluded.requests,
			errors = excluded.errors, refused = excluded.refused, slow = excluded.slow, tokens = excluded.tokens, begun = excluded.begun`,
			[]any{int64(r.Width), nanos(r.Start), r.ServiceID, r.Gateway, r.Key, r.Revision, r.Project, r.Service, r.Requests, r.Errors, r.Refused, r.Slow, r.Tokens, string(begun)}}
	}
	if len(rows) == 0 {
		return nil
	}
	return s.write(ctx, all...)
}

// EachServed walks the rows of a span.
func (s *served) EachServed(ctx context.Context, q history.ServedQuery, f func(serving.Served)) error {
	return q.Pages(f, func(after *serving.Served) ([]serving.Served, error) {
		where, args := q.Page(after, nanos, func(n int) string { return "$" + strconv.Itoa(n) })
		return read(ctx, s.link, `SELECT `+servedColumns+` FROM served WHERE `+where, args, func(r pgx.Rows) (one serving.Served, err error) {
			var width, start int64
			var begun string
			if err := r.Scan(&width, &start, &one.ServiceID, &one.Gateway, &one.Key, &one.Revision, &one.Project, &one.Service, &one.Requests, &one.Errors, &one.Refused, &one.Slow, &one.Tokens, &begun); err != nil {
				return one, err
			}
			one.Width, one.Start = serving.Width(width), fromNanos(start)
			return one, json.Unmarshal([]byte(begun), &one.Begun)
		})
	})
}

// SumServed adds the rows of a span up.
func (s *served) SumServed(ctx context.Context, q history.ServedQuery) (map[string]serving.ServedCount, error) {
	out := map[string]serving.ServedCount{}
	where, args := q.Where(nanos, func(n int) string { return "$" + strconv.Itoa(n) })
	list, err := read(ctx, s.link, `SELECT `+history.SumColumns+` FROM served WHERE `+where+` GROUP BY key`, args, func(r pgx.Rows) (one serving.Served, err error) {
		return one, r.Scan(&one.Key, &one.Requests, &one.Errors, &one.Refused, &one.Slow, &one.Tokens)
	})
	for i := range list {
		out[list[i].Key] = list[i].ServedCount
	}
	return out, err
}

// ForgetMinutes deletes the rows of minutes before a time.
func (s *served) ForgetMinutes(ctx context.Context, before time.Time) error {
	return s.write(ctx, statement{`DELETE FROM served WHERE width = $1 AND start < $2`, []any{int64(serving.Minute), nanos(before)}})
}
