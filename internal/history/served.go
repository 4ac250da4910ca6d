package history

import (
	"context"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
)

// Served keeps what gateways carried for services.
type Served interface {
	// PutServed replaces rows by what names them: writing twice is writing once.
	PutServed(ctx context.Context, rows ...serving.Served) error
	// EachServed calls f with the rows of a span, oldest first. It holds one page at a time.
	EachServed(ctx context.Context, q ServedQuery, f func(serving.Served)) error
	// SumServed adds the rows of a span up, by key.
	SumServed(ctx context.Context, q ServedQuery) (map[string]serving.ServedCount, error)
	// ForgetMinutes deletes the rows of minutes before a time; those of hours stay.
	ForgetMinutes(ctx context.Context, before time.Time) error
}

// ServedQuery selects rows that begin in [From, To). What is empty does not matter.
type ServedQuery struct {
	Width     serving.Width
	From, To  time.Time
	ServiceID string
	Project   string
	Key       string
}

// servedPage is how many rows EachServed reads at once.
const servedPage = 5000

// SumColumns are those of a sum by key, of which Where's rows are added up: the key first.
const SumColumns = `key, CAST(SUM(requests) AS BIGINT), CAST(SUM(errors) AS BIGINT), CAST(SUM(refused) AS BIGINT), CAST(SUM(slow) AS BIGINT), CAST(SUM(tokens) AS BIGINT)`

// Where is the condition of a span's rows, whose places are made by place, and its values. nanos is how the adapter keeps times.
func (q ServedQuery) Where(nanos func(time.Time) int64, place func(int) string) (where string, args []any) {
	add := func(text string, value any) {
		args = append(args, value)
		where += text + place(len(args))
	}
	add(`width = `, int64(q.Width))
	add(` AND start >= `, nanos(q.From))
	add(` AND start < `, nanos(q.To))
	for _, c := range []struct{ column, value string }{{"service_id", q.ServiceID}, {"project", q.Project}, {"key", q.Key}} {
		if c.value != "" {
			add(` AND `+c.column+` = `, c.value)
		}
	}
	return where, args
}

// Page is Where of one page, behind a row.
func (q ServedQuery) Page(after *serving.Served, nanos func(time.Time) int64, place func(int) string) (where string, args []any) {
	where, args = q.Where(nanos, place)
	add := func(text string, value any) {
		args = append(args, value)
		where += text + place(len(args))
	}
	if after != nil {
		add(` AND (start, service_id, gateway, key, revision) > (`, nanos(after.Start))
		for _, v := range []any{after.ServiceID, after.Gateway, after.Key, after.Revision} {
			add(`, `, v)
		}
		where += `)`
	}
	where += ` ORDER BY start, service_id, gateway, key, revision LIMIT `
	add(``, servedPage)
	return where, args
}

// Pages is EachServed over a reader of the page behind a row.
func (q ServedQuery) Pages(f func(serving.Served), read func(after *serving.Served) ([]serving.Served, error)) error {
	var last *serving.Served
	for {
		page, err := read(last)
		if err != nil {
			return err
		}
		for i := range page {
			f(page[i])
		}
		if len(page) < servedPage {
			return nil
		}
		last = &page[len(page)-1]
	}
}
