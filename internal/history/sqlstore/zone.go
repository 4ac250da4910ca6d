package sqlstore

import (
	"context"
	"database/sql"
	"slices"
	"sort"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// A zone is a run of neighbours in one order of one kind, and a Bloom filter of the words of its
// rows. A list that looks for something rare in this part of the order passes over zones that
// cannot have it. Filters only ever say too much: rows that left are not taken out until a zone
// is split.
const (
	zoneBits   = 1 << 14
	zoneHashes = 3
	maxFilters = 4096 // filters the writer keeps in memory, 2 KiB each
)

type filter []byte // zoneBits

func newFilter() filter { return make(filter, zoneBits/8) }

func (f filter) add(w word) {
	for range zoneHashes {
		bit := w % zoneBits
		f[bit/8] |= 1 << (bit % 8)
		w >>= 14
	}
}

func (f filter) has(w word) bool {
	for range zoneHashes {
		bit := w % zoneBits
		if f[bit/8]&(1<<(bit%8)) == 0 {
			return false
		}
		w >>= 14
	}
	return true
}

// may says whether a row with all that is needed can be in the zone.
func (f filter) may(n needs) bool {
	for _, group := range n {
		if !slices.ContainsFunc(group, f.has) {
			return false
		}
	}
	return true
}

func (f filter) addRow(e *entry) {
	for _, w := range e.marks() {
		f.add(w)
	}
}

// place is where a row stands in an order.
type place struct{ value, id string }

func (p place) before(o place) bool { return p.value < o.value || p.value == o.value && p.id < o.id }

// order is one way to sort a list.
type order struct {
	name   string
	column string // "" when the id alone decides
	index  string
	value  func(*entry) string
}

var orders = []order{
	{"id", "", "archived_id", func(*entry) string { return "" }},
	{"name", "name", "archived_name", func(e *entry) string { return e.name }},
	{"displayName", "sort_key", "archived_display", func(e *entry) string { return e.sortKey }},
	{"updatedAt", "updated", "archived_updated", func(e *entry) string { return e.updated }},
}

// expr is the order's value in SQL.
func (o order) expr() string {
	if o.column == "" {
		return "''"
	}
	return o.column
}

// by is what ORDER BY takes.
func (o order) by(direction string) string {
	if o.column == "" {
		return "id " + direction
	}
	return o.column + " " + direction + ", id " + direction
}

// within is the condition for rows of a kind from lo on and before hi; nil is no bound.
func (o order) within(kind api.Kind, lo, hi *place) (string, []any) {
	where, args := "kind = ?", []any{string(kind)}
	for _, bound := range []struct {
		at *place
		op string
	}{{lo, ">="}, {hi, "<"}} {
		if bound.at != nil && *bound.at != (place{}) {
			cond, more := o.compare(bound.op, *bound.at)
			where, args = where+" AND "+cond, append(args, more...)
		}
	}
	return where, args
}

func (o order) compare(op string, at place) (string, []any) {
	if o.column == "" {
		return "id " + op + " ?", []any{at.id}
	}
	return "(" + o.column + ", id) " + op + " (?, ?)", []any{at.value, at.id}
}

// orderKey finds the zones of one order of one kind.
type orderKey struct {
	kind api.Kind
	sort string
}

// zone is one run: from lo to the next one's lo.
type zone struct {
	lo     place
	n      int
	filter filter // nil: not in memory
	dirty  bool   // not as in the table
}

// zoneLine is all zones of one order of one kind.
type zoneLine struct {
	zones []*zone // by lo; the first begins before everything
	hi    place   // no row stands behind it
}

// zoneCache is what the writer knows of the zones: all beginnings, some filters. It belongs to
// the writer's goroutine and is used only inside its transaction, where nobody else writes.
type zoneCache struct {
	version int64 // changes when another process has written
	lines   map[orderKey]*zoneLine
	filters int
}

func (c *zoneCache) forget() { *c = zoneCache{} }

// begin notices what other processes did since the last transaction.
func (c *zoneCache) begin(ctx context.Context, w *writer) error {
	var version int64
	err := w.query(ctx, "PRAGMA data_version", nil, func(r *sql.Rows) error { return r.Scan(&version) })
	if err != nil {
		return err
	}
	if version != c.version || c.lines == nil || c.filters > maxFilters {
		*c = zoneCache{version: version, lines: map[orderKey]*zoneLine{}}
	}
	return nil
}

func (c *zoneCache) load(ctx context.Context, w *writer, kind api.Kind, o order) (*zoneLine, error) {
	key := orderKey{kind, o.name}
	if line := c.lines[key]; line != nil {
		return line, nil
	}
	line := &zoneLine{}
	err := w.query(ctx, `SELECT lo, lo_id, n FROM archived_zone WHERE kind = ? AND sort = ? ORDER BY lo, lo_id`,
		[]any{string(kind), o.name}, func(r *sql.Rows) error {
			z := &zone{}
			line.zones = append(line.zones, z)
			return r.Scan(&z.lo.value, &z.lo.id, &z.n)
		})
	if err != nil {
		return nil, err
	}
	if len(line.zones) == 0 {
		line.zones = append(line.zones, &zone{filter: newFilter(), dirty: true})
	}
	err = w.query(ctx, `SELECT `+o.expr()+`, id FROM archived INDEXED BY `+o.index+` WHERE kind = ? ORDER BY `+o.by("DESC")+` LIMIT 1`,
		[]any{string(kind)}, func(r *sql.Rows) error { return r.Scan(&line.hi.value, &line.hi.id) })
	c.lines[key] = line
	return line, err
}

// add tells the zones of new or changed rows, which are in the table already.
func (c *zoneCache) add(ctx context.Context, w *writer, rows []*entry) error {
	for _, e := range rows {
		for _, o := range orders {
			line, err := c.load(ctx, w, e.kind, o)
			if err != nil {
				return err
			}
			if err := c.addTo(ctx, w, line, orderKey{e.kind, o.name}, place{o.value(e), e.id}, e.mark); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *zoneCache) addTo(ctx context.Context, w *writer, line *zoneLine, key orderKey, at place, words []word) error {
	i := sort.Search(len(line.zones), func(i int) bool { return at.before(line.zones[i].lo) }) - 1
	z := line.zones[i]
	if line.hi.before(at) {
		line.hi = at
		// Rows mostly come in order: begin a new zone at the end rather than split the last.
		if z.n >= w.tune.zoneMax {
			z = &zone{lo: at, filter: newFilter()}
			line.zones = append(line.zones, z)
			c.filters++
		}
	}
	if z.filter == nil {
		z.filter = newFilter()
		c.filters++
		err := w.query(ctx, `SELECT filter FROM archived_zone WHERE kind = ? AND sort = ? AND lo = ? AND lo_id = ?`,
			[]any{string(key.kind), key.sort, z.lo.value, z.lo.id}, func(r *sql.Rows) error {
				return r.Scan((*[]byte)(&z.filter))
			})
		if err != nil {
			return err
		}
	}
	for _, word := range words {
		z.filter.add(word)
	}
	z.n++
	z.dirty = true
	return nil
}

// flush writes what changed, and splits zones that have grown too large.
func (c *zoneCache) flush(ctx context.Context, w *writer) error {
	for _, o := range orders {
		for key, line := range c.lines {
			if key.sort != o.name {
				continue
			}
			zones := make([]*zone, 0, len(line.zones)+1)
			for i, z := range line.zones {
				parts := []*zone{z}
				if z.dirty && z.n > w.tune.zoneMax {
					var end *place
					if i+1 < len(line.zones) {
						end = &line.zones[i+1].lo
					}
					var err error
					if parts, err = split(ctx, w, key.kind, o, z, end); err != nil {
						return err
					}
				}
				for _, p := range parts {
					if err := p.save(ctx, w, key); err != nil {
						return err
					}
				}
				zones = append(zones, parts...)
			}
			line.zones = zones
		}
	}
	return nil
}

func (z *zone) save(ctx context.Context, w *writer, key orderKey) error {
	if !z.dirty {
		return nil
	}
	z.dirty = false
	return w.exec(ctx, `INSERT INTO archived_zone (kind, sort, lo, lo_id, n, filter) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (kind, sort, lo, lo_id) DO UPDATE SET n = excluded.n, filter = excluded.filter`,
		string(key.kind), key.sort, z.lo.value, z.lo.id, z.n, []byte(z.filter))
}

// split reads the rows of a zone, up to end, and makes zones of a third of what is allowed: the
// smaller they begin, the fewer rows are read again.
func split(ctx context.Context, w *writer, kind api.Kind, o order, z *zone, end *place) ([]*zone, error) {
	where, args := o.within(kind, &z.lo, end)
	var parts []*zone
	err := w.query(ctx, `SELECT `+o.expr()+`, id, project, owner, phase, queue, labels, haystack
		FROM archived INDEXED BY `+o.index+` WHERE `+where+` ORDER BY `+o.by("ASC"), args, func(r *sql.Rows) error {
		e, at := &entry{kind: kind}, place{}
		if err := r.Scan(&at.value, &at.id, &e.project, &e.owner, &e.phase, &e.queue, &e.labels, &e.haystack); err != nil {
			return err
		}
		last := len(parts) - 1
		if last < 0 || parts[last].n >= w.tune.zoneMax/3 {
			if last < 0 {
				at = z.lo // also what comes later between the two
			}
			parts = append(parts, &zone{lo: at, filter: newFilter(), dirty: true})
			last++
		}
		parts[last].filter.addRow(e)
		parts[last].n++
		return nil
	})
	if len(parts) == 0 {
		parts = []*zone{{lo: z.lo, filter: newFilter(), dirty: true}}
	}
	return parts, err
}
