package objects

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/stream"
	"github.com/fermi-cluster/fermi/internal/store"
)

// watchEvents is the schema of what a watch of a kind sends.
func watchEvents(reg *rest.Schemas, kind *huma.Schema) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{
		rest.EventSchema(kind, "added", "modified", "deleted"),
		rest.EventSchema(rest.SchemaOf[KeptObject](reg), "kept"),
		rest.EventSchema(rest.SchemaOf[atRevision](reg), "reset", "synced"),
		rest.EventSchema(rest.SchemaOf[rest.Refusal](reg), "error"),
	}}
}

// watch tells what exists, then what changes.
//
// A first stream is: added for each object, synced with the revision, then added, modified and
// deleted as they happen. A client that comes back with Last-Event-ID hears reset first; then
// added for what changed since, and kept with the id alone for what did not: whatever is named
// in neither before synced is gone. Only synced and what follows carry an id, so that a stream
// cut within the first part starts again from the beginning. A slow reader gets fewer, newer
// changes: the feed coalesces them by object.
func (s *Lister) watch(ctx context.Context, c *rest.Call, row api.KindInfo) (*rest.Reply, error) {
	since, resumed, err := lastEvent(c.R)
	if err != nil {
		return nil, err
	}
	w := &watching{lister: s, filter: s.filterOf(c.Query, row.Kind), since: since, resumed: resumed}
	feed := s.truth.Subscribe(row.Kind) // before the snapshot: nothing falls in between
	defer feed.Close()
	snap, err := s.truth.List(ctx, row.Kind, w.filter.project, c.Query.Number("minRevision"))
	if err != nil {
		return nil, err
	}
	st, err := s.streams.Open(ctx, c, rest.MediaEvents)
	if err != nil {
		return nil, err
	}
	defer st.End()
	w.st = st
	if c.R.Method == http.MethodHead {
		return nil, nil
	}
	if err := w.existing(snap); err != nil {
		return nil, w.closed(err)
	}
	for {
		changes, err := feed.Next(st.Ctx)
		if err != nil {
			return nil, w.closed(err)
		}
		if err := w.tell(changes, snap.Revision); err != nil {
			return nil, w.closed(err)
		}
	}
}

// lastEvent reads the revision a client saw last.
func lastEvent(r *http.Request) (int64, bool, error) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		return 0, false, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, false, fault.New(fault.Invalid, "BadLastEventID", fault.T("Last-Event-ID is not a revision.", "Last-Event-ID 不是有效的 revision。"))
	}
	return n, true, nil
}

type watching struct {
	lister  *Lister
	st      *stream.Stream
	filter  filter
	since   int64
	resumed bool
}

// closed ends the stream: its client hears why where it still listens.
func (w *watching) closed(err error) error {
	if gone := w.st.Gone(); gone != nil {
		err = gone
	}
	w.st.Farewell(err)
	return nil
}

func (w *watching) wants(o api.Object) bool {
	if o == nil || !w.filter.matches(o) {
		return false
	}
	ok, err := w.lister.judge.MayRead(w.st.Ctx, w.st.Who.Load(), o)
	return err == nil && ok
}

type KeptObject struct {
	ID       string `json:"id"`
	Revision int64  `json:"revision"`
}

type atRevision struct {
	Revision int64 `json:"revision"`
}

func (w *watching) existing(snap store.Snapshot) error {
	if w.resumed {
		if err := w.st.Event("reset", "", atRevision{snap.Revision}); err != nil {
			return err
		}
		if w.since > snap.Revision {
			w.since = 0 // of another life of the store
		}
	}
	var failed error
	snap.Ascend("", func(o api.Object) bool {
		if !w.wants(o) {
			return true
		}
		m := o.GetMeta()
		if w.resumed && m.Revision <= w.since {
			failed = w.st.Event("kept", "", KeptObject{m.ID, m.Revision})
		} else {
			failed = w.st.Event("added", "", w.lister.kinds.Hide(o))
		}
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	return w.st.Event("synced", strconv.FormatInt(snap.Revision, 10), atRevision{snap.Revision})
}

// tell sends a batch. Only its last event carries the id, the newest revision of all: the order
// within a batch is that of the first change of each object.
func (w *watching) tell(changes []store.Change, seen int64) error {
	type step struct {
		name   string
		object api.Object
	}
	var steps []step
	newest := int64(0)
	for _, ch := range changes {
		if ch.Revision <= seen {
			continue
		}
		newest = max(newest, ch.Revision)
		was, is := w.wants(ch.Old), w.wants(ch.New)
		switch {
		case is && was:
			steps = append(steps, step{"modified", w.lister.kinds.Hide(ch.New)})
		case is:
			steps = append(steps, step{"added", w.lister.kinds.Hide(ch.New)})
		case was:
			steps = append(steps, step{"deleted", w.departed(ch)})
		}
	}
	for i, st := range steps {
		id := ""
		if i == len(steps)-1 {
			id = strconv.FormatInt(newest, 10)
		}
		if err := w.st.Event(st.name, id, st.object); err != nil {
			return err
		}
	}
	return nil
}

// departed is the last known state, at the revision of its end.
func (w *watching) departed(ch store.Change) api.Object {
	gone := store.Clone(w.lister.kinds.Hide(ch.Old))
	gone.GetMeta().Revision = ch.Revision
	return gone
}
