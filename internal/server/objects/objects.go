package objects

import (
	"context"
	"net/http"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// Objects serves the plain verbs of all kinds.
type Objects struct {
	kinds  *Kinds
	finder *Finder
	lister *Lister
	writer *Writer
}

func New(k *Kinds, f *Finder, l *Lister, w *Writer) *Objects {
	return &Objects{kinds: k, finder: f, lister: l, writer: w}
}

func (s *Objects) filterParams(row api.KindInfo) []rest.Param {
	params := []rest.Param{
		{Name: "owner", Doc: "Made by this user."},
		{Name: "label", Form: rest.FormPair, Doc: "key=value; all given must match."},
		{Name: "search", Doc: "Part of name or displayName, in any case."},
	}
	if row.Project {
		params = append(params, rest.ParamProject)
	}
	if f := s.kinds.Of(row.Kind).Filter; f != nil {
		params = append(params, rest.Param{Name: "phase", Form: rest.FormList, Doc: "Any of these.", Enum: f.Phases}, rest.Param{Name: "queue", Doc: "In this queue."})
	}
	return params
}

func (s *Objects) listParams(row api.KindInfo) []rest.Param {
	return append(s.filterParams(row),
		rest.Param{Name: "limit", Form: rest.FormInt, Min: 1, Max: 500, Fallback: "50", Doc: "Items a page."},
		rest.Param{Name: "cursor", Doc: "next of the page before."},
		rest.Param{Name: "sort", Doc: "Order; - is descending.", Fallback: "-createdAt", Enum: SortWords},
		rest.ParamRevision)
}

func oneParams(row api.KindInfo) []rest.Param {
	if row.Project {
		return []rest.Param{rest.ParamProject, rest.ParamRevision}
	}
	return []rest.Param{rest.ParamRevision}
}

// Routes follow from a row of the table of kinds.
func (s *Objects) Routes(row api.KindInfo, reg *rest.Schemas) []*rest.Route {
	all, one := rest.Prefix+"/"+row.Plural, rest.Prefix+"/"+row.Plural+"/{name}"
	schema := reg.Kind(row)
	word := string(row.Kind)
	routes := []*rest.Route{
		{
			Method: http.MethodGet, Path: all, ID: "list" + word, Summary: "List " + row.Plural + ", live and archived.", Tag: row.Plural,
			Kind: row.Kind, Query: s.listParams(row), Data: rest.Page(schema), Handle: func(ctx context.Context, c *rest.Call) (*rest.Reply, error) { return s.lister.list(ctx, c, row) },
		},
		{
			Method: http.MethodGet, Path: one, ID: "get" + word, Summary: "Get one by name or id.", Tag: row.Plural,
			Kind: row.Kind, Query: oneParams(row), Data: schema,
			Handle: func(ctx context.Context, c *rest.Call) (*rest.Reply, error) { return s.get(ctx, c, row) },
		},
		{
			Method: http.MethodGet, Path: rest.Prefix + "/watch/" + row.Plural, ID: "watch" + word, Tag: row.Plural,
			Summary: "Watch as Server-Sent Events: added for what exists, synced, then added, modified and deleted.",
			Kind:    row.Kind, Query: append(s.filterParams(row), rest.Param{Name: "name", Doc: "Only the one with this name or id."}, rest.ParamRevision),
			Media: rest.MediaEvents, Data: watchEvents(reg, schema),
			Handle: func(ctx context.Context, c *rest.Call) (*rest.Reply, error) { return s.lister.watch(ctx, c, row) },
		},
	}
	if !row.Users {
		return routes
	}
	h := s.kinds.Of(row.Kind)
	create := &rest.Route{
		Method: http.MethodPost, Path: all, ID: "create" + word, Summary: "Create one.", Tag: row.Plural, Kind: row.Kind, Verb: "create",
		Query: append(rest.ScopeParams(row), rest.ParamDryRun),
		Body: &rest.BodySpec{
			Schema: schema, Media: rest.ManifestMedia, Required: true, Doc: "The manifest, JSON or YAML.", Example: h.Read.Example,
			Made: "$response.body#/data/metadata/name",
		},
		Data:   schema,
		Handle: func(ctx context.Context, c *rest.Call) (*rest.Reply, error) { return s.writer.create(ctx, c, row) },
	}
	if h.Read.Schema != nil {
		create.Body.Schema = h.Read.Schema(reg)
	}
	if h.Born.Schema != nil {
		create.Data, create.Body.Made = h.Born.Schema(reg), "$response.body#/data"+h.Born.At
	}
	return append(routes, create,
		&rest.Route{
			Method: http.MethodPut, Path: one, ID: "update" + word, Summary: "Change spec, displayName and labels; metadata.revision must be the one read.", Tag: row.Plural,
			Kind: row.Kind, Verb: "update", Query: append(rest.ScopeParams(row), rest.ParamDryRun),
			Body:   &rest.BodySpec{Schema: schema, Media: rest.ManifestMedia, Required: true, Doc: "The manifest, JSON or YAML."},
			Data:   schema,
			Handle: func(ctx context.Context, c *rest.Call) (*rest.Reply, error) { return s.writer.update(ctx, c, row) },
		},
		&rest.Route{
			Method: http.MethodDelete, Path: one, ID: "delete" + word, Summary: "Delete one; a task's work is ended first.", Tag: row.Plural,
			Kind: row.Kind, Verb: "delete", Query: append(rest.ScopeParams(row), h.Remove.Params...), Data: schema,
			Handle: func(ctx context.Context, c *rest.Call) (*rest.Reply, error) { return s.writer.remove(ctx, c, row) },
		})
}

func (s *Objects) get(ctx context.Context, c *rest.Call, row api.KindInfo) (*rest.Reply, error) {
	f, err := s.finder.Resolve(ctx, c, row, c.R.PathValue("name"))
	if err != nil {
		return nil, err
	}
	shown, err := s.kinds.presenter(ctx, row.Kind)
	if err != nil {
		return nil, err
	}
	object := f.Object
	if detail := s.kinds.Of(row.Kind).Present.Detail; detail != nil {
		if object, err = detail(ctx, object); err != nil {
			return nil, err
		}
	}
	return &rest.Reply{Data: shown(object), Revision: f.Object.GetMeta().Revision}, nil
}
