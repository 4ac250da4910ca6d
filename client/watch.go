package client

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// ChangeType is what happened to an object.
type ChangeType string

// The changes. Synced comes once, after everything that existed at the start.
const (
	Added    ChangeType = "added"
	Modified ChangeType = "modified"
	Deleted  ChangeType = "deleted"
	Synced   ChangeType = "synced"
)

// Change is one step of a watch. For Deleted the object is the last one known.
type Change struct {
	Type     ChangeType
	Object   api.Object // nil for Synced
	Revision int64
}

// WatchOptions select what to watch.
type WatchOptions struct {
	Project string
	Name    string
	// Lost, when set, is told when the stream broke and is being opened again.
	Lost func(error)
}

// Watch hands over everything that matches, then Synced, then every change, until ctx ends or
// emit fails. A broken stream is opened again: what changed meanwhile is told as usual, including
// what is gone; nothing is told twice.
func (c *Client) Watch(ctx context.Context, kind api.Kind, o WatchOptions, emit func(Change) error) error {
	p, err := plural(kind)
	if err != nil {
		return err
	}
	query := inProject(o.Project)
	set(query, "name", o.Name)
	w := &watcher{client: c, kind: kind, known: map[string]api.Object{}, emit: func(ch Change) error {
		if err := emit(ch); err != nil {
			return stop{err}
		}
		return nil
	}}
	return keep(ctx, o.Lost, func() (bool, bool, error) { return w.once(ctx, "/watch/"+p, query) })
}

// watcher compares each new stream with what it told before. It doesn't ask the server to resume
// (Last-Event-ID): only a whole look shows what was deleted while nobody listened.
type watcher struct {
	client *Client
	kind   api.Kind
	known  map[string]api.Object // by id
	heard  map[string]bool       // ids of the current stream, until its synced
	synced bool
	emit   func(Change) error
}

func (w *watcher) once(ctx context.Context, path string, query url.Values) (bool, bool, error) {
	w.heard = map[string]bool{}
	heard := false
	err := w.client.stream(ctx, path, query, func(ev serverEvent) error {
		heard = true
		switch ChangeType(ev.name) {
		case Added, Modified:
			return w.put(ev)
		case Deleted:
			obj, err := w.object(ev)
			if err != nil {
				return err
			}
			return w.gone(obj)
		case Synced:
			return w.sync(ev)
		case "error":
			return farewell(ev.data)
		}
		return nil
	})
	return false, heard, err
}

func (w *watcher) object(ev serverEvent) (api.Object, error) {
	obj, err := decodeObject(w.kind, ev.data)
	if err != nil {
		return nil, notFermi(w.client.Server(), err)
	}
	return obj, nil
}

func identity(obj api.Object) string {
	m := obj.GetMeta()
	if m.ID != "" {
		return m.ID
	}
	return m.Project + "/" + m.Name
}

func (w *watcher) put(ev serverEvent) error {
	obj, err := w.object(ev)
	if err != nil {
		return err
	}
	id, rev := identity(obj), obj.GetMeta().Revision
	if w.heard != nil {
		w.heard[id] = true
	}
	old, ok := w.known[id]
	w.known[id] = obj
	switch {
	case !ok:
		return w.emit(Change{Added, obj, rev})
	case old.GetMeta().Revision == rev && rev != 0:
		return nil
	}
	return w.emit(Change{Modified, obj, rev})
}

func (w *watcher) gone(obj api.Object) error {
	id := identity(obj)
	if _, ok := w.known[id]; !ok {
		return nil
	}
	delete(w.known, id)
	delete(w.heard, id)
	return w.emit(Change{Deleted, obj, obj.GetMeta().Revision})
}

func (w *watcher) sync(ev serverEvent) error {
	for id, obj := range w.known {
		if w.heard != nil && !w.heard[id] {
			delete(w.known, id)
			if err := w.emit(Change{Deleted, obj, obj.GetMeta().Revision}); err != nil {
				return err
			}
		}
	}
	w.heard = nil
	if w.synced {
		return nil
	}
	w.synced = true
	return w.emit(Change{Type: Synced, Revision: revisionOf(ev)})
}

// revisionOf reads the revision from the event's id or from {"revision": n}.
func revisionOf(ev serverEvent) int64 {
	if n, err := strconv.ParseInt(ev.id, 10, 64); err == nil {
		return n
	}
	var body struct {
		Revision int64 `json:"revision"`
	}
	_ = json.Unmarshal(ev.data, &body) // absent is 0
	return body.Revision
}
