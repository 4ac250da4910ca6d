package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
)

// How a list is made.
//
// The simple story: walk the index of the order, check each row, stop when the page is full.
// That is all it takes when nothing is filtered. With filters it can mean a million rows for a
// page of ten, in two ways:
//
//   - What is asked for is rare. Then the word index knows it: up to sparse rows are fetched by
//     number, checked and sorted.
//   - It is not rare, but stands elsewhere in the order: displayName order has all of "BERT…"
//     before any of "GPT…". Then zones are passed over that cannot have it.
//
// Words and zones only ever say too much, so every row is checked again.

// maxLimit is the largest page.
const maxLimit = 1000

// list is one ListQuery, as SQL.
type list struct {
	history.ListQuery
	order order
	needs needs // by words
	where string
	args  []any
}

func newList(q history.ListQuery) (*list, error) {
	l := &list{ListQuery: q}
	i := slices.IndexFunc(orders, func(o order) bool { return o.name == q.Sort || q.Sort == "" && o.name == "id" })
	if i < 0 {
		return nil, fault.New(fault.Invalid, "BadSort", fault.T(
			"Lists cannot be sorted by %q; use id, name, displayName or updatedAt.",
			"列表不支持按 %q 排序；可用 id、name、displayName、updatedAt。", q.Sort))
	}
	l.order = orders[i]
	l.Limit = min(max(q.Limit, 1), maxLimit)
	l.needs = needsOf(q)
	and := func(cond string, args ...any) {
		l.where += " AND " + cond
		l.args = append(l.args, args...)
	}
	for _, c := range []struct{ column, value string }{{"project", q.Project}, {"owner", q.Owner}, {"queue", q.Queue}} {
		if c.value != "" {
			and(c.column+" = ?", c.value)
		}
	}
	if len(q.Phase) > 0 {
		var args []any
		for _, p := range q.Phase {
			args = append(args, p)
		}
		and("phase IN (?"+strings.Repeat(", ?", len(args)-1)+")", args...)
	}
	for k, v := range q.Labels {
		and("instr(labels, ?) > 0", labelSep+k+"="+v+labelSep)
	}
	if q.Search != "" {
		and("instr(haystack, ?) > 0", history.Fold(q.Search))
	}
	if q.After != nil {
		op := ">"
		if q.Desc {
			op = "<"
		}
		cond, args := l.order.compare(op, l.cursor())
		and(cond, args...)
	}
	return l, nil
}

func (l *list) cursor() place {
	if l.order.column == "" {
		return place{"", l.After.ID}
	}
	return place{l.After.Value, l.After.ID}
}

func (l *list) direction() string {
	if l.Desc {
		return "DESC"
	}
	return "ASC"
}

// zoneNeeds adds what zones know and the word index does not: a search for one character.
func (l *list) zoneNeeds() needs {
	if fold := history.Fold(l.Search); utf8.RuneCountInString(fold) == 1 {
		return append(slices.Clone(l.needs), chars(fold))
	}
	return l.needs
}

// ListArchived walks archived objects in order.
func (s *archive) ListArchived(ctx context.Context, q history.ListQuery) ([]history.Archived, error) {
	l, err := newList(q)
	if err != nil {
		return nil, err
	}
	seqs, err := s.find(ctx, l)
	if err != nil || len(seqs) == 0 {
		return nil, err
	}
	args := make([]any, len(seqs))
	at := make(map[int64]int, len(seqs))
	for i, seq := range seqs {
		args[i], at[seq] = seq, i
	}
	found := make([]history.Archived, len(seqs))
	err = s.query(ctx, `SELECT a.kind, a.phase, a.queue, a.expires, b.body, a.seq FROM archived a JOIN archived_body b ON b.seq = a.seq
		WHERE a.seq IN (?`+strings.Repeat(", ?", len(args)-1)+`)`, args, func(r *sql.Rows) error {
		var seq int64
		a, err := scanArchived(r, &seq)
		found[at[seq]] = a
		return err
	})
	// A row may have been forgotten between the two queries.
	return slices.DeleteFunc(found, func(a history.Archived) bool { return a.Object == nil }), err
}

// find gives the row numbers of a page, in order.
func (s *archive) find(ctx context.Context, l *list) ([]int64, error) {
	if len(l.zoneNeeds()) == 0 {
		return s.walk(ctx, l, nil, nil, l.Limit)
	}
	if len(l.needs) > 0 {
		seqs, err := s.seqs(ctx, `SELECT rowid FROM archived_words WHERE archived_words MATCH ? LIMIT ?`,
			[]any{wordNeeds(l.ListQuery).match(), s.tune.sparse + 1})
		if err != nil {
			return nil, err
		}
		if len(seqs) <= s.tune.sparse {
			return s.pick(ctx, l, seqs)
		}
	}
	return s.skip(ctx, l)
}

// pick fetches rows by number, checks and sorts. CROSS JOIN keeps SQLite to that order.
func (s *archive) pick(ctx context.Context, l *list, seqs []int64) ([]int64, error) {
	if len(seqs) == 0 {
		return nil, nil
	}
	numbers, err := json.Marshal(seqs)
	if err != nil {
		return nil, err
	}
	args := append([]any{string(numbers), string(l.Kind)}, l.args...)
	return s.seqs(ctx, `SELECT seq FROM (SELECT value AS number FROM json_each(?)) CROSS JOIN archived ON seq = number
		WHERE kind = ?`+l.where+` ORDER BY `+l.order.by(l.direction())+` LIMIT ?`, append(args, l.Limit))
}

// walk reads a part of the order, checking every row.
func (s *archive) walk(ctx context.Context, l *list, lo, hi *place, limit int) ([]int64, error) {
	where, args := l.order.within(l.Kind, lo, hi)
	args = append(append(args, l.args...), limit)
	return s.seqs(ctx, `SELECT seq FROM archived INDEXED BY `+l.order.index+` WHERE `+where+l.where+
		` ORDER BY `+l.order.by(l.direction())+` LIMIT ?`, args)
}

func (s *archive) seqs(ctx context.Context, query string, args []any) ([]int64, error) {
	var out []int64
	err := s.query(ctx, query, args, func(r *sql.Rows) error {
		var seq int64
		err := r.Scan(&seq)
		out = append(out, seq)
		return err
	})
	return out, err
}

// span is a part of the order: from lo on, before hi; nil is no bound.
type span struct{ lo, hi *place }

// skip walks only zones that may have what is needed.
func (s *archive) skip(ctx context.Context, l *list) ([]int64, error) {
	var out []int64
	err := s.eachSpan(ctx, l, func(part span) (bool, error) {
		found, err := s.walk(ctx, l, part.lo, part.hi, l.Limit-len(out))
		out = append(out, found...)
		return len(out) < l.Limit, err
	})
	return out, err
}

// eachSpan visits, in the query's direction, the parts of the order that may have what is needed,
// until visit says that it is enough.
func (s *archive) eachSpan(ctx context.Context, l *list, visit func(span) (more bool, err error)) error {
	var from *place // where the zones not yet looked at begin, or with Desc end
	for {
		zones, err := s.zonesFrom(ctx, l, from)
		if err != nil || len(zones) == 0 {
			return err
		}
		for _, part := range l.spans(zones) {
			if more, err := visit(part); err != nil || !more {
				return err
			}
		}
		from = zones[len(zones)-1].lo
		if !l.Desc {
			from = zones[len(zones)-1].hi
		}
		if from == nil || *from == (place{}) {
			return nil
		}
	}
}

// seenZone is a zone as a reader sees it.
type seenZone struct {
	span
	filter filter
}

// spans are the runs of zones that may have what is needed, in the query's direction.
func (l *list) spans(zones []seenZone) []span {
	n := l.zoneNeeds()
	var out []span
	joined := false
	for _, z := range zones {
		if !z.filter.may(n) {
			joined = false
			continue
		}
		switch last := len(out) - 1; {
		case !joined:
			out = append(out, z.span)
		case l.Desc:
			out[last].lo = z.lo
		default:
			out[last].hi = z.hi
		}
		joined = true
	}
	return out
}

// zonesFrom reads a page of zones in the query's direction: at first from the one that holds the
// cursor, then from where the page before ended.
func (s *archive) zonesFrom(ctx context.Context, l *list, from *place) ([]seenZone, error) {
	if from == nil && l.After != nil {
		at := l.cursor()
		from = &at
		if !l.Desc { // the zone that holds the cursor begins at or before it
			if err := s.query(ctx, `SELECT lo, lo_id FROM archived_zone WHERE kind = ? AND sort = ? AND (lo, lo_id) <= (?, ?)
				ORDER BY lo DESC, lo_id DESC LIMIT 1`, []any{string(l.Kind), l.order.name, at.value, at.id},
				func(r *sql.Rows) error { return r.Scan(&from.value, &from.id) }); err != nil {
				return nil, err
			}
		}
	}
	query := `SELECT lo, lo_id, filter FROM archived_zone WHERE kind = ? AND sort = ?`
	args := []any{string(l.Kind), l.order.name}
	switch {
	case from != nil && l.Desc:
		query += ` AND (lo, lo_id) < (?, ?)`
		args = append(args, from.value, from.id)
	case from != nil:
		query += ` AND (lo, lo_id) >= (?, ?)`
		args = append(args, from.value, from.id)
	}
	if l.Desc {
		query += ` ORDER BY lo DESC, lo_id DESC LIMIT ?`
	} else {
		query += ` ORDER BY lo, lo_id LIMIT ?`
	}
	var zones []seenZone
	err := s.query(ctx, query, append(args, s.tune.zonePage+1), func(r *sql.Rows) error {
		z := seenZone{span: span{lo: &place{}}}
		err := r.Scan(&z.lo.value, &z.lo.id, (*[]byte)(&z.filter))
		zones = append(zones, z)
		return err
	})
	return l.close(zones, from, s.tune.zonePage), err
}

// close gives zones their ends: the next one's beginning. The one zone too many that was read
// only serves for that.
func (l *list) close(zones []seenZone, from *place, zonePage int) []seenZone {
	for i := range zones {
		if l.Desc {
			zones[i].hi = from // no further than where we were
			from = zones[i].lo
		} else if i+1 < len(zones) {
			zones[i].hi = zones[i+1].lo
		}
	}
	if len(zones) > zonePage {
		zones = zones[:zonePage]
	}
	return zones
}

// CountArchived counts what ListArchived would walk, up to max.
func (s *archive) CountArchived(ctx context.Context, q history.ListQuery, max int) (int, error) {
	l, err := newList(q)
	if err != nil {
		return 0, err
	}
	if len(l.needs) > 0 {
		args := append([]any{l.needs.match(), string(l.Kind)}, l.args...)
		return s.count(ctx, `archived_words CROSS JOIN archived a ON a.seq = archived_words.rowid
			WHERE archived_words MATCH ? AND kind = ?`+l.where, args, max)
	}
	if len(l.zoneNeeds()) == 0 {
		return s.count(ctx, `archived WHERE kind = ?`+l.where, append([]any{string(l.Kind)}, l.args...), max)
	}
	n := 0
	err = s.eachSpan(ctx, l, func(part span) (bool, error) {
		where, args := l.order.within(l.Kind, part.lo, part.hi)
		more, err := s.count(ctx, `archived INDEXED BY `+l.order.index+` WHERE `+where+l.where, append(args, l.args...), max-n)
		n += more
		return n < max, err
	})
	return n, err
}

func (s *archive) count(ctx context.Context, from string, args []any, max int) (n int, err error) {
	err = s.query(ctx, `SELECT count(*) FROM (SELECT 1 FROM `+from+` LIMIT ?)`, append(args, max),
		func(r *sql.Rows) error { return r.Scan(&n) })
	return n, err
}
