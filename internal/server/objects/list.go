package objects

import (
	"container/heap"
	"context"
	"slices"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/stream"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Lister lists and watches. Safe for concurrent use.
type Lister struct {
	truth   *truth.Truth
	judge   *access.Judge
	history history.History
	kinds   *Kinds
	streams *stream.Streams
	keys    *sortKeys
}

func NewLister(f *Finder, st *stream.Streams) *Lister {
	return &Lister{truth: f.Truth, judge: f.Judge, history: f.History, kinds: f.kinds, streams: st, keys: &sortKeys{}}
}

// Run makes the sort keys of what is there at the start, so that the first sorted list need not.
func (s *Lister) Run(ctx context.Context) {
	for _, kind := range s.kinds.phased() {
		s.keys.warm(ctx, s.truth, kind)
	}
}

// filter selects objects, live ones here and archived ones in SQL, by the same rules.
type filter struct {
	project string
	name    string // watch only
	owner   string
	queue   string
	phases  []string
	labels  map[string]string
	search  string // folded
	raw     string // search as given
	by      func(api.Object) (queue, phase string)
}

func (s *Lister) filterOf(q rest.Values, kind api.Kind) filter {
	f := filter{
		project: q.Text("project"), name: q.Text("name"), owner: q.Text("owner"), queue: q.Text("queue"),
		phases: q.All("phase"), labels: q.Pairs("label"), raw: q.Text("search"), search: history.Fold(q.Text("search")),
	}
	if h := s.kinds.Of(kind); h.Filter != nil {
		f.by = h.Filter.By
	}
	return f
}

func (f *filter) matches(o api.Object) bool {
	m := o.GetMeta()
	switch {
	case f.project != "" && m.Project != f.project,
		f.name != "" && m.Name != f.name && m.ID != f.name,
		f.owner != "" && m.Owner != f.owner:
		return false
	}
	if f.by != nil && (f.queue != "" || len(f.phases) > 0) {
		queue, phase := f.by(o)
		if f.queue != "" && queue != f.queue || len(f.phases) > 0 && !slices.Contains(f.phases, phase) {
			return false
		}
	}
	for k, v := range f.labels {
		if got, ok := m.Labels[k]; !ok || got != v {
			return false
		}
	}
	return f.search == "" || strings.Contains(history.Fold(m.Name), f.search) || strings.Contains(history.Fold(m.DisplayName), f.search)
}

// entry is an object at its place.
type entry struct {
	at     place
	object api.Object
}

// source is a sorted stream of entries; ok is false at its end.
type source interface {
	next(ctx context.Context) (e entry, ok bool, err error)
}

type listed struct {
	Items    []api.Object `json:"items"`
	Next     string       `json:"next,omitempty"`
	Revision int64        `json:"revision,omitempty"`
}

// list joins live and archived objects: a merge of sorted streams in which an object counts once
// and the live one wins. The live snapshot is taken first, so that an object on its way to the
// archive is never missed.
func (s *Lister) list(ctx context.Context, c *rest.Call, row api.KindInfo) (*rest.Reply, error) {
	sorting := orderOf(c.Query.Text("sort"))
	after, err := decodeCursor(c.Query.Text("cursor"), sorting)
	if err != nil {
		return nil, err
	}
	f := s.filterOf(c.Query, row.Kind)
	projects, all, err := s.judge.ProjectsOf(ctx, c.Who)
	if err != nil {
		return nil, err
	}
	limit := int(c.Query.Number("limit"))
	snap, err := s.truth.List(ctx, row.Kind, f.project, c.Query.Number("minRevision"))
	if err != nil {
		return nil, err
	}
	visible := func(o api.Object) bool {
		if row.Project {
			return (all || slices.Contains(projects, o.GetMeta().Project)) && !s.judge.Hides(c.Who, o)
		}
		ok, err := s.judge.MayRead(ctx, c.Who, o)
		return err == nil && ok
	}
	sources := []source{s.liveSource(snap, sorting, after, limit, func(o api.Object) bool { return f.matches(o) && visible(o) })}
	if row.Phased {
		sources = append(sources, s.archivedSources(row.Kind, f, sorting, after, limit, projects, all)...)
	}
	items, next, err := merge(ctx, sources, sorting, limit)
	if err != nil {
		return nil, err
	}
	shown, err := s.kinds.presenter(ctx, row.Kind)
	if err != nil {
		return nil, err
	}
	out := listed{Items: make([]api.Object, 0, len(items)), Next: next, Revision: snap.Revision}
	for _, e := range items {
		out.Items = append(out.Items, shown(e.object))
	}
	return &rest.Reply{Data: out, Revision: snap.Revision}, nil
}

// merge takes the first limit entries of all sources; next is the cursor behind the last one.
func merge(ctx context.Context, sources []source, sorting order, limit int) ([]entry, string, error) {
	heads := make([]*entry, len(sources))
	pull := func(i int) error {
		e, ok, err := sources[i].next(ctx)
		heads[i] = nil
		if ok {
			heads[i] = &e
		}
		return err
	}
	for i := range sources {
		if err := pull(i); err != nil {
			return nil, "", err
		}
	}
	seen := map[string]bool{}
	var out []entry
	for {
		best := -1
		for i, h := range heads { // the live source is the first: it wins ties
			if h != nil && (best < 0 || sorting.before(h.at, heads[best].at)) {
				best = i
			}
		}
		if best < 0 {
			return out, "", nil
		}
		e := *heads[best]
		if !seen[e.at.id] {
			if len(out) == limit {
				return out, encodeCursor(sorting, out[limit-1].at), nil
			}
			seen[e.at.id] = true
			out = append(out, e)
		}
		if err := pull(best); err != nil {
			return nil, "", err
		}
	}
}

// liveSource walks the snapshot lazily where it is sorted already, and otherwise keeps the best.
func (s *Lister) liveSource(snap store.Snapshot, sorting order, after *place, limit int, want func(api.Object) bool) source {
	var best []entry
	if sorting.by != "id" {
		best = s.best(snap, sorting, after, limit+1, want)
		return &fixed{best}
	}
	visit := func(o api.Object) bool {
		if want(o) {
			best = append(best, entry{place{id: o.GetMeta().ID}, o})
		}
		return len(best) <= limit
	}
	from := ""
	if after != nil {
		from = after.id
	}
	if sorting.desc {
		snap.Descend(from, visit)
	} else {
		snap.Ascend(from, visit)
	}
	return &fixed{best}
}

// best keeps the n first entries behind after, in order, looking at each object once.
func (s *Lister) best(snap store.Snapshot, sorting order, after *place, n int, want func(api.Object) bool) []entry {
	h := &worst{order: sorting}
	walk := snap.Ascend
	if sorting.desc {
		walk = snap.Descend // likely the best first: the rest is then passed over at once
	}
	walk("", func(o api.Object) bool {
		if !want(o) {
			return true
		}
		e := entry{s.placeOf(sorting, o), o}
		if after != nil && !sorting.before(*after, e.at) {
			return true
		}
		switch {
		case len(h.entries) < n:
			heap.Push(h, e)
		case sorting.before(e.at, h.entries[0].at):
			h.entries[0] = e
			heap.Fix(h, 0)
		}
		return true
	})
	slices.SortFunc(h.entries, func(a, b entry) int {
		switch {
		case sorting.before(a.at, b.at):
			return -1
		case sorting.before(b.at, a.at):
			return 1
		}
		return 0
	})
	return h.entries
}

// worst is a heap whose root is the entry that comes last.
type worst struct {
	order   order
	entries []entry
}

func (h *worst) Len() int           { return len(h.entries) }
func (h *worst) Less(i, j int) bool { return h.order.before(h.entries[j].at, h.entries[i].at) }
func (h *worst) Swap(i, j int)      { h.entries[i], h.entries[j] = h.entries[j], h.entries[i] }
func (h *worst) Push(x any)         { h.entries = append(h.entries, x.(entry)) }
func (h *worst) Pop() any {
	last := len(h.entries) - 1
	e := h.entries[last]
	h.entries = h.entries[:last]
	return e
}

type fixed struct{ entries []entry }

func (f *fixed) next(context.Context) (entry, bool, error) {
	if len(f.entries) == 0 {
		return entry{}, false, nil
	}
	e := f.entries[0]
	f.entries = f.entries[1:]
	return e, true, nil
}

// archivedSources is one stream over the archive, or one for each project the caller is in.
func (s *Lister) archivedSources(kind api.Kind, f filter, sorting order, after *place, limit int, projects []string, all bool) []source {
	q := history.ListQuery{
		Kind: kind, Project: f.project, Owner: f.owner, Phase: f.phases, Queue: f.queue, Labels: f.labels, Search: f.raw,
		Sort: sorting.by, Desc: sorting.desc, Limit: limit + 1,
	}
	if after != nil {
		q.After = &history.Cursor{Value: after.value, ID: after.id}
	}
	if all || f.project != "" {
		if !all && !slices.Contains(projects, f.project) {
			return nil
		}
		return []source{&archived{lister: s, q: q}}
	}
	var out []source
	for _, p := range projects {
		q.Project = p
		out = append(out, &archived{lister: s, q: q})
	}
	return out
}

// archived pulls pages of the archive as they are needed and leaves out what is still live.
type archived struct {
	lister *Lister
	q      history.ListQuery
	page   []history.Archived
	done   bool
}

func (a *archived) next(ctx context.Context) (entry, bool, error) {
	for {
		if len(a.page) == 0 {
			if a.done {
				return entry{}, false, nil
			}
			if err := a.fetch(ctx); err != nil {
				return entry{}, false, err
			}
			continue
		}
		o := a.page[0].Object
		a.page = a.page[1:]
		if _, err := a.lister.truth.GetByID(ctx, a.q.Kind, o.GetMeta().ID, 0); err == nil {
			continue // the live one counts
		}
		return entry{a.lister.placeOf(orderIn(a.q), o), o}, true, nil
	}
}

func orderIn(q history.ListQuery) order { return order{by: q.Sort, desc: q.Desc} }

func (a *archived) fetch(ctx context.Context) error {
	rows, err := a.lister.history.ListArchived(ctx, a.q)
	if err != nil {
		return err
	}
	a.page, a.done = rows, len(rows) < a.q.Limit
	if len(rows) > 0 {
		last := a.lister.placeOf(orderIn(a.q), rows[len(rows)-1].Object)
		a.q.After = &history.Cursor{Value: last.value, ID: last.id}
	}
	return nil
}
