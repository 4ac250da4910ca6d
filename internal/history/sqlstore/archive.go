package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"golang.org/x/sync/errgroup"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

// encodeChunk is how many rows one goroutine encodes.
const encodeChunk = 128

// archive keeps work that has ended, and finds it again.
type archive struct {
	write func(ctx context.Context, do func(ctx context.Context, w *writer) error) error
	query func(ctx context.Context, query string, args []any, scan func(*sql.Rows) error) error
	tune  tuning
}

// PutArchived replaces by object id.
func (s *archive) PutArchived(ctx context.Context, rows ...history.Archived) error {
	if len(rows) == 0 {
		return nil
	}
	// Outside the transaction, and on all cores: others wait for the writer.
	entries := make([]*entry, len(rows))
	var work errgroup.Group
	for from := 0; from < len(rows); from += encodeChunk {
		work.Go(func() (err error) {
			for i := from; i < min(from+encodeChunk, len(rows)) && err == nil; i++ {
				entries[i], err = encode(rows[i])
			}
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	return s.write(ctx, func(ctx context.Context, w *writer) error {
		for _, e := range entries {
			if err := w.putEntry(ctx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

func encode(r history.Archived) (*entry, error) {
	body, err := history.PackObject(r.Object)
	if err != nil {
		return nil, err
	}
	m := r.Object.GetMeta()
	e := &entry{
		kind: r.Object.Kind(), id: m.ID, project: m.Project, owner: m.Owner, name: m.Name,
		sortKey: history.SortKey(m.DisplayName), updated: history.TimeKey(m.UpdatedAt), phase: r.Phase, queue: r.Queue,
		labels: joinLabels(m.Labels), haystack: history.Haystack(m.Name, m.DisplayName),
		body: body,
	}
	if !r.Expires.IsZero() {
		e.expires = nanos(r.Expires)
	}
	e.text, e.mark = e.terms(), e.marks()
	return e, nil
}

func (w *writer) putEntry(ctx context.Context, e *entry) error {
	res, err := w.execResult(ctx, `INSERT INTO archived
		(kind, id, project, owner, name, sort_key, updated, phase, queue, labels, haystack, expires)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (kind, id) DO NOTHING`,
		string(e.kind), e.id, e.project, e.owner, e.name, e.sortKey, e.updated, e.phase, e.queue, e.labels, e.haystack, e.expires)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return err
	}
	if n == 0 {
		return w.replaceEntry(ctx, e)
	}
	seq, err := res.LastInsertId()
	if err != nil {
		return err
	}
	if err := w.exec(ctx, `INSERT INTO archived_body (seq, body) VALUES (?, ?)`, seq, e.body); err != nil {
		return err
	}
	w.placed = append(w.placed, e)
	return w.exec(ctx, `INSERT INTO archived_words (rowid, words) VALUES (?, ?)`, seq, e.text)
}

func (w *writer) replaceEntry(ctx context.Context, e *entry) error {
	seq, old, err := w.entryOf(ctx, e.kind, e.id)
	if err != nil {
		return err
	}
	if err := w.exec(ctx, `UPDATE archived SET project = ?, owner = ?, name = ?, sort_key = ?, updated = ?, phase = ?,
		queue = ?, labels = ?, haystack = ?, expires = ? WHERE seq = ?`,
		e.project, e.owner, e.name, e.sortKey, e.updated, e.phase, e.queue, e.labels, e.haystack, e.expires, seq); err != nil {
		return err
	}
	if err := w.exec(ctx, `UPDATE archived_body SET body = ? WHERE seq = ?`, e.body, seq); err != nil {
		return err
	}
	was, is := old.terms(), e.text
	if was != is {
		if err := w.exec(ctx, forgetWords, seq, was); err != nil {
			return err
		}
		if err := w.exec(ctx, `INSERT INTO archived_words (rowid, words) VALUES (?, ?)`, seq, is); err != nil {
			return err
		}
	}
	if was != is || e.name != old.name || e.sortKey != old.sortKey || e.updated != old.updated {
		w.placed = append(w.placed, e)
	}
	return nil
}

// forgetWords takes a row out of the word index, which has to be told what was in it.
const forgetWords = `INSERT INTO archived_words (archived_words, rowid, words) VALUES ('delete', ?, ?)`

// entryOf reads what the word index and the zones know a row by. seq is 0 when there is none.
func (w *writer) entryOf(ctx context.Context, kind api.Kind, id string) (seq int64, e *entry, err error) {
	e = &entry{kind: kind, id: id}
	err = w.query(ctx, `SELECT seq, project, owner, name, sort_key, updated, phase, queue, labels, haystack
		FROM archived WHERE kind = ? AND id = ?`, []any{string(kind), id}, func(r *sql.Rows) error {
		return r.Scan(&seq, &e.project, &e.owner, &e.name, &e.sortKey, &e.updated, &e.phase, &e.queue, &e.labels, &e.haystack)
	})
	return seq, e, err
}

// Forget deletes rows; absent is fine.
func (s *archive) Forget(ctx context.Context, kind api.Kind, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	return s.write(ctx, func(ctx context.Context, w *writer) error {
		for _, id := range ids {
			seq, e, err := w.entryOf(ctx, kind, id)
			if err != nil {
				return err
			}
			if seq == 0 {
				continue
			}
			if err := w.exec(ctx, forgetWords, seq, e.terms()); err != nil {
				return err
			}
			for _, q := range []string{`DELETE FROM archived WHERE seq = ?`, `DELETE FROM archived_body WHERE seq = ?`} {
				if err := w.exec(ctx, q, seq); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Expired lists objects whose time has come, the oldest first.
func (s *archive) Expired(ctx context.Context, now time.Time, limit int) ([]history.Archived, error) {
	return s.fetch(ctx, `SELECT a.kind, a.phase, a.queue, a.expires, b.body FROM archived a JOIN archived_body b ON b.seq = a.seq
		WHERE a.expires < ? ORDER BY a.expires LIMIT ?`, nanos(now), min(max(limit, 1), maxLimit))
}

// GetArchived finds by id, or by the newest with this name.
func (s *archive) GetArchived(ctx context.Context, kind api.Kind, project, nameOrID string) (history.Archived, error) {
	const head = `SELECT a.kind, a.phase, a.queue, a.expires, b.body FROM archived a JOIN archived_body b ON b.seq = a.seq WHERE a.kind = ? AND `
	for _, cond := range []string{`a.id = ?`, `a.name = ?`} {
		args := []any{string(kind), nameOrID}
		if project != "" {
			cond += ` AND a.project = ?`
			args = append(args, project)
		}
		rows, err := s.fetch(ctx, head+cond+` ORDER BY a.id DESC LIMIT 1`, args...)
		if err != nil {
			return history.Archived{}, err
		}
		if len(rows) > 0 {
			return rows[0], nil
		}
	}
	return history.Archived{}, fault.New(fault.NotFound, "NotFound", fault.T(
		"There is no %s %q in the archive.", "归档中没有 %s %q。", kind, nameOrID))
}

// fetch reads whole objects: kind, phase, queue, expires, body.
func (s *archive) fetch(ctx context.Context, query string, args ...any) ([]history.Archived, error) {
	var out []history.Archived
	err := s.query(ctx, query, args, func(r *sql.Rows) error {
		a, err := scanArchived(r)
		out = append(out, a)
		return err
	})
	return out, err
}

func scanArchived(r *sql.Rows, more ...any) (history.Archived, error) {
	var (
		a       history.Archived
		kind    string
		expires sql.NullInt64
		packed  sql.RawBytes
	)
	if err := r.Scan(append([]any{&kind, &a.Phase, &a.Queue, &expires, &packed}, more...)...); err != nil {
		return a, err
	}
	if expires.Valid {
		a.Expires = fromNanos(expires.Int64)
	}
	var err error
	a.Object, err = history.UnpackObject(api.Kind(kind), packed)
	return a, err
}
