package pgstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

// PutArchived replaces by object id.
func (s *Store) PutArchived(ctx context.Context, rows ...history.Archived) error {
	if len(rows) == 0 {
		return nil
	}
	all := make([]statement, len(rows))
	for i, r := range rows {
		body, err := history.PackObject(r.Object)
		if err != nil {
			return err
		}
		m := r.Object.GetMeta()
		all[i] = statement{`WITH a AS (INSERT INTO archived
			(kind, id, project, owner, name, sort_key, updated, phase, queue, labels, haystack, expires)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
			ON CONFLICT (kind, id) DO UPDATE SET project = excluded.project, owner = excluded.owner, name = excluded.name,
			sort_key = excluded.sort_key, updated = excluded.updated, phase = excluded.phase, queue = excluded.queue,
			labels = excluded.labels, haystack = excluded.haystack, expires = excluded.expires RETURNING seq)
			INSERT INTO archived_body (seq, body) SELECT seq, $13 FROM a ON CONFLICT (seq) DO UPDATE SET body = excluded.body`,
			[]any{string(r.Object.Kind()), m.ID, m.Project, m.Owner, m.Name, history.SortKey(m.DisplayName), history.TimeKey(m.UpdatedAt), r.Phase, r.Queue,
				pairs(m.Labels), history.Haystack(m.Name, m.DisplayName), orNull(r.Expires), body}}
	}
	return s.write(ctx, all...)
}

// pairs are labels as an array of key=value, which is indexed.
func pairs(labels map[string]string) []string {
	out := make([]string, 0, len(labels))
	for k, v := range labels {
		out = append(out, k+"="+v)
	}
	return out
}

// Forget deletes rows; absent is fine.
func (s *Store) Forget(ctx context.Context, kind api.Kind, ids ...string) error {
	all := make([]statement, len(ids))
	for i, id := range ids {
		all[i] = statement{`DELETE FROM archived WHERE kind = $1 AND id = $2`, []any{string(kind), id}} // the body goes with it
	}
	if len(all) == 0 {
		return nil
	}
	return s.write(ctx, all...)
}

// whole is what scanArchived takes.
const whole = `SELECT a.kind, a.phase, a.queue, a.expires, b.body FROM `

func scanArchived(r pgx.Rows) (a history.Archived, err error) {
	var (
		kind    api.Kind
		expires *int64
		packed  []byte
	)
	if err := r.Scan(&kind, &a.Phase, &a.Queue, &expires, &packed); err != nil {
		return a, err
	}
	a.Expires = fromNull(expires)
	a.Object, err = history.UnpackObject(kind, packed)
	return a, damaged(err)
}

// Expired lists objects whose time has come, the oldest first.
func (s *Store) Expired(ctx context.Context, now time.Time, limit int) ([]history.Archived, error) {
	return read(ctx, s.link, whole+`archived a JOIN archived_body b USING (seq) WHERE a.expires < $1 ORDER BY a.expires LIMIT $2`,
		[]any{nanos(now), min(max(limit, 1), maxLimit)}, scanArchived)
}

// GetArchived finds by id, or by the newest with this name.
func (s *Store) GetArchived(ctx context.Context, kind api.Kind, project, nameOrID string) (history.Archived, error) {
	for _, column := range []string{"id", "name"} {
		rows, err := read(ctx, s.link, whole+`archived a JOIN archived_body b USING (seq)
			WHERE a.kind = $1 AND a.`+column+` = $2 AND ($3 = '' OR a.project = $3) ORDER BY a.id DESC LIMIT 1`,
			[]any{string(kind), nameOrID, project}, scanArchived)
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

// list is one ListQuery, as SQL.
type list struct {
	where string
	order string // ORDER BY, of the columns below
	by    []string
	args  []any
}

func newList(q history.ListQuery) (*list, error) {
	column, ok := map[string]string{"": "", "id": "", "name": "name", "displayName": "sort_key", "updatedAt": "updated"}[q.Sort]
	if !ok {
		return nil, fault.New(fault.Invalid, "BadSort", fault.T(
			"Lists cannot be sorted by %q; use id, name, displayName or updatedAt.",
			"列表不支持按 %q 排序；可用 id、name、displayName、updatedAt。", q.Sort))
	}
	l := &list{where: "kind = $1", args: []any{string(q.Kind)}}
	and := func(cond string, args ...any) {
		var numbers []any
		for _, a := range args {
			l.args = append(l.args, a)
			numbers = append(numbers, len(l.args))
		}
		l.where += " AND " + fmt.Sprintf(cond, numbers...)
	}
	for _, c := range []struct{ column, value string }{{"project", q.Project}, {"owner", q.Owner}, {"queue", q.Queue}} {
		if c.value != "" {
			and(c.column+" = $%d", c.value)
		}
	}
	if len(q.Phase) > 0 {
		and("phase = ANY($%d)", q.Phase)
	}
	if len(q.Labels) > 0 {
		and("labels @> $%d", pairs(q.Labels))
	}
	if q.Search != "" {
		and("haystack LIKE $%d", "%"+likeEscaper.Replace(history.Fold(q.Search))+"%")
	}
	direction, op := "ASC", ">"
	if q.Desc {
		direction, op = "DESC", "<"
	}
	l.by = []string{"id"}
	if column != "" {
		l.by = []string{column, "id"}
	}
	l.order = strings.Join(l.by, " "+direction+", ") + " " + direction
	switch {
	case q.After == nil:
	case column == "":
		and("id "+op+" $%d", q.After.ID)
	default:
		and("("+column+", id) "+op+" ($%d, $%d)", q.After.Value, q.After.ID)
	}
	return l, nil
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// ListArchived walks archived objects in order.
func (s *Store) ListArchived(ctx context.Context, q history.ListQuery) ([]history.Archived, error) {
	l, err := newList(q)
	if err != nil {
		return nil, err
	}
	page := fmt.Sprintf(`(SELECT seq, kind, phase, queue, expires, %s FROM archived WHERE %s ORDER BY %s LIMIT %d)`,
		strings.Join(l.by, ", "), l.where, l.order, min(max(q.Limit, 1), maxLimit))
	return read(ctx, s.link, whole+page+` a JOIN archived_body b USING (seq) ORDER BY `+l.order, l.args, scanArchived)
}

// CountArchived counts what ListArchived would walk, up to max.
func (s *Store) CountArchived(ctx context.Context, q history.ListQuery, max int) (int, error) {
	l, err := newList(q)
	if err != nil {
		return 0, err
	}
	counts, err := read(ctx, s.link, fmt.Sprintf(`SELECT count(*) FROM (SELECT 1 FROM archived WHERE %s LIMIT %d) a`, l.where, max), l.args,
		func(r pgx.Rows) (n int, err error) {
			err = r.Scan(&n)
			return n, err
		})
	if err != nil || len(counts) == 0 {
		return 0, err
	}
	return counts[0], nil
}
