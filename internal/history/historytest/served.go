package historytest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/history"
)

// served: a row replaces the one of its names, a span gets its own in order, over more than a page; minutes are forgotten, hours are not.
func served(t *testing.T, h history.History) {
	ctx := context.Background()
	ok(t, h.PutServed(ctx))
	row := func(gateway, service, key string, revision int, width serving.Width, at time.Duration, n int64) serving.Served {
		return serving.Served{
			Gateway: gateway, ServiceID: service, Project: "p-" + service, Service: "name-" + service, Key: key, Revision: revision, Width: width, Start: epoch.Add(at),
			ServedCount: serving.ServedCount{Requests: n, Errors: 1, Refused: 2, Slow: 3, Tokens: 4},
		}
	}
	a, b, c := row("g", "s", "", 1, serving.Minute, 0, 10), row("g", "s", "", 2, serving.Minute, time.Minute, 20), row("g", "s", "k", 0, serving.Hour, 0, 30)
	a.Begun = []int64{1, 2, 3}
	ok(t, h.PutServed(ctx, row("g", "s", "", 1, serving.Minute, 0, 5), b, c))
	ok(t, h.PutServed(ctx, a, row("g2", "other", "k", 0, serving.Hour, 0, 7)))
	list := func(q history.ServedQuery) []serving.Served {
		t.Helper()
		if q.From.IsZero() {
			q.From = epoch
		}
		q.To = epoch.Add(time.Hour)
		out := []serving.Served{}
		ok(t, h.EachServed(ctx, q, func(r serving.Served) { out = append(out, r) }))
		return out
	}
	same(t, []serving.Served{a, b}, list(history.ServedQuery{Width: serving.Minute}))
	same(t, []serving.Served{b}, list(history.ServedQuery{Width: serving.Minute, From: epoch.Add(time.Second)}))
	same(t, []serving.Served{c}, list(history.ServedQuery{Width: serving.Hour, ServiceID: "s"}))
	same(t, []serving.Served{c}, list(history.ServedQuery{Width: serving.Hour, Project: "p-s"}))
	same(t, 2, len(list(history.ServedQuery{Width: serving.Hour, Key: "k"})))
	sum, err := h.SumServed(ctx, history.ServedQuery{Width: serving.Hour, Key: "k", From: epoch, To: epoch.Add(time.Hour)})
	ok(t, err)
	same(t, map[string]serving.ServedCount{"k": {Requests: 37, Errors: 2, Refused: 4, Slow: 6, Tokens: 8}}, sum)
	none, err := h.SumServed(ctx, history.ServedQuery{Width: serving.Hour, ServiceID: "nothing", From: epoch, To: epoch.Add(time.Hour)})
	ok(t, err)
	same(t, 0, len(none))
	var many []serving.Served
	for i := range 5001 {
		many = append(many, row("g", "crowd", fmt.Sprintf("k%d", i), 0, serving.Hour, 0, 1))
	}
	for len(many) > 0 {
		n := min(len(many), 1000)
		ok(t, h.PutServed(ctx, many[:n]...))
		many = many[n:]
	}
	same(t, 5001, len(list(history.ServedQuery{Width: serving.Hour, ServiceID: "crowd"})))
	ok(t, h.ForgetMinutes(ctx, epoch.Add(time.Minute)))
	same(t, []serving.Served{b}, list(history.ServedQuery{Width: serving.Minute}))
	same(t, []serving.Served{c}, list(history.ServedQuery{Width: serving.Hour, ServiceID: "s"}))
}
