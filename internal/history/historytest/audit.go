package historytest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/history"
)

func audit(t *testing.T, h history.History) {
	ctx := context.Background()
	want := history.AuditEntry{
		Time: epoch, Actor: "admin", Verb: "create", Kind: api.KindTrainingTask, Project: "p", Name: "n4", ID: "task-1",
		Before: `{}`, After: `{"名":1}`, RemoteIP: "127.0.0.1", Outcome: "ok", Token: "tok-1", Session: "tok-2", Request: "r-1",
		Detail: `{"path":"x"}`, Count: 7, Since: epoch.Add(-time.Minute),
	}
	for i := range 5 {
		e := want
		e.Name = fmt.Sprint("n", i)
		ok(t, h.AddAudit(ctx, e))
	}
	last, err := h.ListAudit(ctx, history.AuditQuery{Limit: 2})
	ok(t, err)
	if len(last) != 2 || last[0].Name != "n4" || last[1].Name != "n3" {
		t.Fatalf("last = %+v", last)
	}
	want.Seq, want.Number, want.Prev, want.Hash = last[0].Seq, 5, last[1].Hash, last[0].Hash
	same(t, want, last[0])
	rest, err := h.ListAudit(ctx, history.AuditQuery{Before: last[1].Seq})
	ok(t, err)
	if len(rest) != 3 || rest[0].Name != "n2" {
		t.Fatalf("rest = %+v", rest)
	}
	first, err := h.ListAudit(ctx, history.AuditQuery{Oldest: true, After: rest[2].Seq, Limit: 2})
	ok(t, err)
	if len(first) != 2 || first[0].Name != "n1" || first[1].Name != "n2" {
		t.Fatalf("from the beginning: %+v", first)
	}
}

func auditQueries(t *testing.T, h history.History) {
	ctx := context.Background()
	for i := range 12 {
		e := history.AuditEntry{
			Time: epoch.Add(time.Duration(i) * time.Hour), Actor: fmt.Sprint("u", i%2), Verb: "create", Kind: api.KindTrainingTask,
			Project: fmt.Sprint("p", i%3), Name: fmt.Sprint("n", i), Outcome: "ok", RemoteIP: fmt.Sprint("10.0.0.", i%4), Request: fmt.Sprint("r", i), Token: "tok-a",
		}
		switch i {
		case 3:
			e.Outcome, e.Verb, e.Kind = "NotAllowed", "delete", api.KindSecret
		case 4:
			e.Project, e.Token, e.Session = "", "", "tok-s"
		}
		ok(t, h.AddAudit(ctx, e))
	}
	for _, tt := range []struct {
		q    history.AuditQuery
		want string
	}{
		{history.AuditQuery{Actor: "u1"}, "[n11 n9 n7 n5 n3 n1]"},
		{history.AuditQuery{Actor: "u1", Projects: []string{"p0"}}, "[n9 n3]"},
		{history.AuditQuery{Projects: []string{"p1", "p2"}, Limit: 3}, "[n11 n10 n8]"},
		{history.AuditQuery{Projects: []string{}}, "[]"},
		{history.AuditQuery{Projects: []string{""}}, "[]"},
		{history.AuditQuery{Projects: []string{"p1') OR (1=1"}}, "[]"},
		{history.AuditQuery{Verb: "delete", Kind: api.KindSecret, Name: "n3"}, "[n3]"},
		{history.AuditQuery{Outcome: history.AuditRefused}, "[n3]"},
		{history.AuditQuery{Outcome: "ok", Limit: 1}, "[n11]"},
		{history.AuditQuery{Outcome: "NotAllowed"}, "[n3]"},
		{history.AuditQuery{RemoteIP: "10.0.0.2", Oldest: true}, "[n2 n6 n10]"},
		{history.AuditQuery{Token: "tok-s"}, "[n4]"},
		{history.AuditQuery{Token: "tok-a", Limit: 2}, "[n11 n10]"},
		{history.AuditQuery{Request: "r7"}, "[n7]"},
		{history.AuditQuery{Since: epoch.Add(2 * time.Hour), Until: epoch.Add(4 * time.Hour)}, "[n3 n2]"},
	} {
		rows, err := h.ListAudit(ctx, tt.q)
		ok(t, err)
		names := []string{}
		for _, e := range rows {
			names = append(names, e.Name)
		}
		if got := fmt.Sprint(names); got != tt.want {
			t.Errorf("%+v: %s; want %s", tt.q, got, tt.want)
		}
	}
}

// auditChain: many writers at once make one chain without a gap, whatever they write.
func auditChain(t *testing.T, h history.History) {
	ctx := context.Background()
	head, err := h.AuditHead(ctx)
	ok(t, err)
	if head.Number != 0 || head.Hash != api.NoAuditHash || head.Anchor.Rows != 0 || head.Anchor.Hash != api.NoAuditHash || head.Anchor.Time.IsZero() {
		t.Fatalf("an empty one: %+v", head)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 10 {
				e := history.AuditEntry{Time: epoch.Add(time.Duration(i)), Actor: fmt.Sprint("u", w), Verb: "create", Name: "nul\x00 bad\xff 名", Outcome: "ok"}
				if err := h.AddAudit(ctx, e, e); err != nil {
					t.Error(err)
				}
				if h.AddAudit(ended, e) == nil {
					t.Error("written under an ended context")
				}
			}
		})
	}
	wg.Wait()
	if head, err = h.AuditHead(ctx); err != nil || head.Number != 160 {
		t.Fatalf("%+v, %v", head, err)
	}
	VerifyAudit(t, h)
}

// VerifyAudit walks the whole chain.
func VerifyAudit(t testing.TB, h history.History) *api.AuditChain {
	t.Helper()
	head, err := h.AuditHead(context.Background())
	ok(t, err)
	var c api.AuditChain
	c.Begin(head.Anchor)
	for at := int64(0); ; {
		rows, err := h.ListAudit(context.Background(), history.AuditQuery{Oldest: true, After: at, Limit: 50})
		ok(t, err)
		for i := range rows {
			ok(t, c.Add(&rows[i]))
			at = rows[i].Seq
		}
		if len(rows) < 50 {
			break
		}
	}
	ok(t, c.End(head))
	return &c
}
