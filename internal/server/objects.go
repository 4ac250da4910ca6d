package server

import (
	"context"
	"net/http"

	api "github.com/fermi-cluster/fermi/api/v1"
)

// objects serves the plain verbs of all kinds.
type objects struct {
	kinds  *kinds
	finder *finder
	lister *lister
	writer *writer
}

func newObjects(k *kinds, f *finder, l *lister, w *writer) *objects {
	return &objects{kinds: k, finder: f, lister: l, writer: w}
}

func (s *objects) filterParams(row api.KindInfo) []param {
	params := []param{
		{name: "owner", doc: "Made by this user."},
		{name: "label", form: formPair, doc: "key=value; all given must match."},
		{name: "search", doc: "Part of name or displayName, in any case."},
	}
	if row.Project {
		params = append(params, paramProject)
	}
	if f := s.kinds.by[row.Kind].filter; f != nil {
		params = append(params, param{name: "phase", form: formList, doc: "Any of these.", enum: f.phases}, param{name: "queue", doc: "In this queue."})
	}
	return params
}

func (s *objects) listParams(row api.KindInfo) []param {
	return append(s.filterParams(row),
		param{name: "limit", form: formInt, min: 1, max: 500, fallback: "50", doc: "Items a page."},
		param{name: "cursor", doc: "next of the page before."},
		param{name: "sort", doc: "Order; - is descending.", fallback: "-createdAt", enum: sortWords},
		paramRevision)
}

func oneParams(row api.KindInfo) []param {
	if row.Project {
		return []param{paramProject, paramRevision}
	}
	return []param{paramRevision}
}

// routes follow from a row of the table of kinds.
func (s *objects) routes(row api.KindInfo, reg *schemas) []*route {
	all, one := prefix+"/"+row.Plural, prefix+"/"+row.Plural+"/{name}"
	schema := reg.kind(row)
	word := string(row.Kind)
	routes := []*route{
		{
			method: http.MethodGet, path: all, id: "list" + word, summary: "List " + row.Plural + ", live and archived.", tag: row.Plural,
			kind: row.Kind, query: s.listParams(row), data: page(schema), handle: func(ctx context.Context, c *call) (*reply, error) { return s.lister.list(ctx, c, row) },
		},
		{
			method: http.MethodGet, path: one, id: "get" + word, summary: "Get one by name or id.", tag: row.Plural,
			kind: row.Kind, query: oneParams(row), data: schema,
			handle: func(ctx context.Context, c *call) (*reply, error) { return s.get(ctx, c, row) },
		},
		{
			method: http.MethodGet, path: prefix + "/watch/" + row.Plural, id: "watch" + word, tag: row.Plural,
			summary: "Watch as Server-Sent Events: added for what exists, synced, then added, modified and deleted.",
			kind:    row.Kind, query: append(s.filterParams(row), param{name: "name", doc: "Only the one with this name or id."}, paramRevision),
			media: mediaEvents, data: watchEvents(reg, schema),
			handle: func(ctx context.Context, c *call) (*reply, error) { return s.lister.watch(ctx, c, row) },
		},
	}
	if !row.Users {
		return routes
	}
	h := s.kinds.by[row.Kind]
	create := &route{
		method: http.MethodPost, path: all, id: "create" + word, summary: "Create one.", tag: row.Plural, kind: row.Kind, verb: "create",
		query: append(scopeParams(row), paramDryRun),
		body: &bodySpec{
			schema: schema, media: manifestMedia, required: true, doc: "The manifest, JSON or YAML.", example: h.read.example,
			made: "$response.body#/data/metadata/name",
		},
		data:   schema,
		handle: func(ctx context.Context, c *call) (*reply, error) { return s.writer.create(ctx, c, row) },
	}
	if h.read.schema != nil {
		create.body.schema = h.read.schema(reg)
	}
	if h.born.schema != nil {
		create.data, create.body.made = h.born.schema(reg), "$response.body#/data"+h.born.at
	}
	return append(routes, create,
		&route{
			method: http.MethodPut, path: one, id: "update" + word, summary: "Change spec, displayName and labels; metadata.revision must be the one read.", tag: row.Plural,
			kind: row.Kind, verb: "update", query: append(scopeParams(row), paramDryRun),
			body:   &bodySpec{schema: schema, media: manifestMedia, required: true, doc: "The manifest, JSON or YAML."},
			data:   schema,
			handle: func(ctx context.Context, c *call) (*reply, error) { return s.writer.update(ctx, c, row) },
		},
		&route{
			method: http.MethodDelete, path: one, id: "delete" + word, summary: "Delete one; a task's work is ended first.", tag: row.Plural,
			kind: row.Kind, verb: "delete", query: append(scopeParams(row), h.remove.params...), data: schema,
			handle: func(ctx context.Context, c *call) (*reply, error) { return s.writer.remove(ctx, c, row) },
		})
}

func (s *objects) get(ctx context.Context, c *call, row api.KindInfo) (*reply, error) {
	f, err := s.finder.resolve(ctx, c, row, c.r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	shown, err := s.kinds.presenter(ctx, row.Kind)
	if err != nil {
		return nil, err
	}
	object := f.object
	if detail := s.kinds.by[row.Kind].present.detail; detail != nil {
		if object, err = detail(ctx, object); err != nil {
			return nil, err
		}
	}
	return &reply{data: shown(object), revision: f.object.GetMeta().Revision}, nil
}
