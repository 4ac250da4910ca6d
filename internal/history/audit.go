package history

import (
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// AuditColumns are the columns of an entry in every adapter, in the order of AuditValues and of what
// AuditRow reads.
const AuditColumns = "time, actor, verb, kind, project, name, object, before, after, remote, outcome, token, session, request, detail, count, since"

// AuditValues are an entry's columns; texts are as they are kept.
func AuditValues(e *AuditEntry, nanos func(time.Time) int64) []any {
	t := api.AuditText
	return []any{
		nanos(e.Time), t(e.Actor), t(e.Verb), t(string(e.Kind)), t(e.Project), t(e.Name), t(e.ID), t(e.Before), t(e.After), t(e.RemoteIP), t(e.Outcome),
		t(e.Token), t(e.Session), t(e.Request), t(e.Detail), e.Count, nanos(e.Since),
	}
}

// AuditRow reads an entry from a row of seq, AuditColumns, number, prev and hash.
func AuditRow(scan func(...any) error, fromNanos func(int64) time.Time) (e AuditEntry, err error) {
	var at, since int64
	err = scan(&e.Seq, &at, &e.Actor, &e.Verb, &e.Kind, &e.Project, &e.Name, &e.ID, &e.Before, &e.After, &e.RemoteIP, &e.Outcome,
		&e.Token, &e.Session, &e.Request, &e.Detail, &e.Count, &since, &e.Number, &e.Prev, &e.Hash)
	e.Time, e.Since = fromNanos(at), fromNanos(since)
	return e, err
}

// AuditHeadQuery gives rows for AuditHeadRow.
const AuditHeadQuery = `SELECT number, hash, anchor_rows, anchor_hash, anchor_time FROM audit_head`

// AuditHeadRow reads the newest entry of the chain.
func AuditHeadRow(scan func(...any) error, fromNanos func(int64) time.Time) (h api.AuditHead, err error) {
	var at int64
	err = scan(&h.Number, &h.Hash, &h.Anchor.Rows, &h.Anchor.Hash, &at)
	h.Anchor.Time = fromNanos(at)
	return h, err
}

// RollAudit is the hash over entries that are older than the chain, and how many they are. The rows are those of AuditRow, oldest first, of whichever database.
func RollAudit(rows interface {
	Next() bool
	Scan(...any) error
	Err() error
}, fromNanos func(int64) time.Time) (hash string, n int, err error) {
	for hash = api.NoAuditHash; rows.Next(); n++ {
		e, err := AuditRow(rows.Scan, fromNanos)
		if err != nil {
			return "", 0, err
		}
		hash = api.RollAudit(hash, &e)
	}
	return hash, n, rows.Err()
}

// AuditRefused is the outcome of a query for everything that was refused.
const AuditRefused = "refused"

// AuditWhere is the query as a condition and its arguments; place gives the placeholder of the n-th argument.
func AuditWhere(q AuditQuery, nanos func(time.Time) int64, place func(n int) string) (string, []any) {
	where, args := "1 = 1", []any{}
	add := func(condition string, value any) {
		args = append(args, value)
		where += " AND " + condition + " " + place(len(args))
	}
	if q.Before > 0 {
		add("seq <", q.Before)
	}
	if q.After > 0 {
		add("seq >", q.After)
	}
	if !q.Since.IsZero() {
		add("time >=", nanos(q.Since))
	}
	if !q.Until.IsZero() {
		add("time <", nanos(q.Until))
	}
	for _, c := range []struct{ column, value string }{
		{"actor", q.Actor}, {"verb", q.Verb}, {"kind", string(q.Kind)}, {"name", q.Name}, {"remote", q.RemoteIP}, {"request", q.Request},
	} {
		if c.value != "" {
			add(c.column+" =", c.value)
		}
	}
	switch q.Outcome {
	case "":
	case AuditRefused:
		add("outcome <>", "ok")
	default:
		add("outcome =", q.Outcome)
	}
	if q.Token != "" {
		args = append(args, q.Token, q.Token)
		where += " AND (token = " + place(len(args)-1) + " OR session = " + place(len(args)) + ")"
	}
	if q.Projects != nil {
		where += " AND project IN (''"
		for _, p := range q.Projects {
			if p != "" {
				args = append(args, p)
				where += ", " + place(len(args))
			}
		}
		where += ") AND project <> ''"
	}
	return where, args
}
