package server

import (
	"context"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// allRoutes is the whole table.
func (s *Server) allRoutes(reg *schemas) []*route {
	routes := s.systemRoutes(reg)
	for _, row := range api.Kinds {
		routes = append(routes, s.kindRoutes(row, reg)...)
	}
	routes = append(routes, s.taskRoutes(reg)...)
	routes = append(routes, s.nodeRoutes(reg)...)
	routes = append(routes, append(s.previewRoutes(reg), s.shareRoutes(reg)...)...)
	routes = append(routes, s.sessionRoutes(reg)...)
	return append(append(routes, s.eventRoutes(reg)...), append(s.usageRoutes(reg), append(s.figureRoutes(reg), append(s.capacityRoutes(reg), s.deviceRoutes(reg)...)...)...)...)
}

var (
	paramProject  = param{name: "project", doc: "The project; for lists all that you see when absent, else default."}
	paramRevision = param{name: "minRevision", form: formInt, doc: "Read at least this revision."}
	paramForce    = param{name: "force", form: formBool, doc: "Of a task that another trains inside: end both."}
	paramDryRun   = param{name: "dryRun", form: formBool, doc: "Only check."}
)

func filterParams(row api.KindInfo) []param {
	params := []param{
		{name: "owner", doc: "Made by this user."},
		{name: "label", form: formPair, doc: "key=value; all given must match."},
		{name: "search", doc: "Part of name or displayName, in any case."},
	}
	if row.Project {
		params = append(params, paramProject)
	}
	if row.Phased {
		phases := param{name: "phase", form: formList, doc: "Any of these."}
		for _, p := range taskPhases {
			phases.enum = append(phases.enum, string(p))
		}
		params = append(params, phases, param{name: "queue", doc: "In this queue."})
	}
	return params
}

func listParams(row api.KindInfo) []param {
	return append(filterParams(row),
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

// fields is an object of an example.
type fields = map[string]any

// manifestExamples are shown in the document; a test makes each of them.
var manifestExamples = map[api.Kind]fields{
	api.KindTrainingTask: {"metadata": fields{"displayName": "GPT大模型分布式训练"}, "spec": fields{"roles": []fields{{"command": []string{"echo", "hi"}}}}},
	api.KindZone:         {"metadata": fields{"displayName": "北京-1"}, "spec": fields{"region": "北京"}},
	api.KindQueue:        {"metadata": fields{"displayName": "夜间队列"}, "spec": fields{"maxPending": 1000}},
	api.KindProject:      {"metadata": fields{"displayName": "语音识别"}, "spec": fields{"queue": "default"}},
	api.KindUser:         {"metadata": fields{"displayName": "林"}, "spec": fields{"role": "member"}},
	api.KindToken:        {"metadata": fields{"displayName": "nightly"}, "spec": fields{"scope": "read"}},
	api.KindSecret:       {"metadata": fields{"displayName": "hub"}, "spec": fields{"data": fields{"username": "lin", "password": "…"}}},
}

var manifestMedia = []string{"application/json", "application/yaml"}

// kindRoutes follow from a row of the table of kinds.
func (s *Server) kindRoutes(row api.KindInfo, reg *schemas) []*route {
	all, one := prefix+"/"+row.Plural, prefix+"/"+row.Plural+"/{name}"
	schema := reg.kind(row)
	word := string(row.Kind)
	routes := []*route{
		{
			method: http.MethodGet, path: all, id: "list" + word, summary: "List " + row.Plural + ", live and archived.", tag: row.Plural,
			kind: row.Kind, query: listParams(row), data: page(schema), handle: func(ctx context.Context, c *call) (*reply, error) { return s.list(ctx, c, row) },
		},
		{
			method: http.MethodGet, path: one, id: "get" + word, summary: "Get one by name or id.", tag: row.Plural,
			kind: row.Kind, query: oneParams(row), data: schema,
			handle: func(ctx context.Context, c *call) (*reply, error) { return s.get(ctx, c, row) },
		},
		{
			method: http.MethodGet, path: prefix + "/watch/" + row.Plural, id: "watch" + word, tag: row.Plural,
			summary: "Watch as Server-Sent Events: added for what exists, synced, then added, modified and deleted.",
			kind:    row.Kind, query: watchParams(row), media: mediaEvents, events: watchEvents(reg, schema),
			handle: func(ctx context.Context, c *call) (*reply, error) { return s.watch(ctx, c, row) },
		},
	}
	if !row.Users {
		return routes
	}
	create := &route{
		method: http.MethodPost, path: all, id: "create" + word, summary: "Create one.", tag: row.Plural, kind: row.Kind, verb: "create",
		query:  append(scopeParams(row), paramDryRun),
		body:   &bodySpec{schema: schema, media: manifestMedia, required: true, doc: "The manifest, JSON or YAML.", example: manifestExamples[row.Kind]},
		data:   schema,
		handle: func(ctx context.Context, c *call) (*reply, error) { return s.create(ctx, c, row) },
	}
	switch row.Kind {
	case api.KindTrainingTask:
		create.data = schemaOf[submitted](reg)
		create.body.schema = &huma.Schema{AnyOf: []*huma.Schema{schema, reg.of(reflect.TypeFor[flatTask]())}}
	case api.KindToken:
		create.data = object([]string{"object", "secret"}, map[string]*huma.Schema{"object": schema, "secret": textSchema("Shown once.")})
	}
	gone := scopeParams(row)
	if row.Kind == api.KindTrainingTask {
		gone = append(gone, paramForce)
	}
	create.links = []string{"get" + word, "update" + word, "delete" + word}
	return append(routes, create,
		&route{
			method: http.MethodPut, path: one, id: "update" + word, summary: "Change spec, displayName and labels; metadata.revision must be the one read.", tag: row.Plural,
			kind: row.Kind, verb: "update", query: append(scopeParams(row), paramDryRun),
			body:   &bodySpec{schema: schema, media: manifestMedia, required: true, doc: "The manifest, JSON or YAML."},
			data:   schema,
			handle: func(ctx context.Context, c *call) (*reply, error) { return s.update(ctx, c, row) },
		},
		&route{
			method: http.MethodDelete, path: one, id: "delete" + word, summary: "Delete one; a task's work is ended first.", tag: row.Plural,
			kind: row.Kind, verb: "delete", query: gone, data: schema,
			handle: func(ctx context.Context, c *call) (*reply, error) { return s.remove(ctx, c, row) },
		})
}

func scopeParams(row api.KindInfo) []param {
	if row.Project {
		return []param{paramProject}
	}
	return nil
}

// found is an object and whether it is archived.
type found struct {
	object   api.Object
	archived bool
}

// resolve finds an object by name or id among the live, then the archived ones. What the caller
// may not see is not there.
func (s *Server) resolve(ctx context.Context, c *call, row api.KindInfo, nameOrID string) (found, error) {
	f, err := s.look(ctx, c, row, nameOrID)
	if err != nil {
		return found{}, err
	}
	ok, err := s.mayRead(ctx, c.who, f.object)
	if err != nil {
		return found{}, err
	}
	if !ok {
		return found{}, missing(row, nameOrID)
	}
	return f, nil
}

func (s *Server) look(ctx context.Context, c *call, row api.KindInfo, nameOrID string) (found, error) {
	if row.Kind == api.KindZone {
		var err error
		if nameOrID, err = s.zoneNamed(ctx, nameOrID); err != nil {
			return found{}, err
		}
	}
	if !api.IsName(nameOrID) || c.q.has("project") && !api.IsName(c.q.text("project")) {
		return found{}, missing(row, nameOrID)
	}
	project, minRevision := c.q.text("project"), c.q.number("minRevision")
	named := func(project string) (found, error) {
		o, err := s.find(ctx, api.Key{Kind: row.Kind, Project: project, Name: nameOrID}, minRevision)
		return found{object: o}, err
	}
	anywhere := project == ""
	if !row.Project {
		project = ""
	}
	var f found
	var err error
	if row.Project && anywhere {
		f, err = s.inHomes(ctx, c, row, nameOrID, named)
	} else {
		f, err = named(project)
	}
	if err == nil || !fault.Is(err, fault.NotFound) {
		return f, err
	}
	o, err := s.Store.GetByID(ctx, row.Kind, nameOrID, max(minRevision, s.newest.Load()))
	if err == nil && (anywhere || o.GetMeta().Project == project) {
		return found{object: o}, nil
	} else if err != nil && !fault.Is(err, fault.NotFound) {
		return found{}, err
	}
	if now := s.newer(ctx, minRevision); now > minRevision {
		c.q.by["minRevision"] = []string{strconv.FormatInt(now, 10)}
		return s.look(ctx, c, row, nameOrID)
	}
	if !row.Phased {
		return found{}, missing(row, nameOrID)
	}
	return s.lookArchived(ctx, c, row, project, nameOrID)
}

func (s *Server) lookArchived(ctx context.Context, c *call, row api.KindInfo, project, nameOrID string) (found, error) {
	named := func(project string) (found, error) {
		a, err := s.History.GetArchived(ctx, row.Kind, project, nameOrID)
		if err != nil {
			return found{}, err
		}
		return found{object: a.Object, archived: true}, nil
	}
	var f found
	var err error
	if project != "" {
		f, err = named(project)
	} else if f, err = s.inHomes(ctx, c, row, nameOrID, named); fault.Is(err, fault.NotFound) {
		f, err = named("")
		if err == nil && f.object.GetMeta().ID != nameOrID { // a name of another project
			return found{}, missing(row, nameOrID)
		}
	}
	if fault.Is(err, fault.NotFound) {
		return found{}, missing(row, nameOrID)
	}
	return f, err
}

func missing(row api.KindInfo, nameOrID string) error {
	return fault.New(fault.NotFound, "NotFound", fault.T(
		"There is no %s %q, or you may not see it.", "%s %q 不存在，或您无权查看。", row.Singular, clip(nameOrID, 128)))
}

func (s *Server) get(ctx context.Context, c *call, row api.KindInfo) (*reply, error) {
	f, err := s.resolve(ctx, c, row, c.r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	shown, err := s.presenter(ctx, row.Kind)
	if err != nil {
		return nil, err
	}
	object, err := s.withUsage(ctx, f.object)
	if err != nil {
		return nil, err
	}
	return &reply{data: shown(object), revision: f.object.GetMeta().Revision}, nil
}

// hide removes what nobody may see, without touching the shared object.
func hide(o api.Object) api.Object {
	switch o := o.(type) {
	case *api.Token:
		private := *o
		private.Spec.Hash = ""
		return &private
	case *api.User:
		private := *o
		private.Status.PasswordHash = ""
		return &private
	}
	if x, ok := o.(*api.Secret); ok {
		private := *x
		private.Spec.Data, private.Spec.Sealed = nil, nil
		private.Status.Keys = slices.Sorted(maps.Keys(x.Spec.Sealed))
		return &private
	}
	return o
}

// presenter shows objects: secrets hidden, and the counts that are computed on read filled in.
func (s *Server) presenter(ctx context.Context, kind api.Kind) (func(api.Object) api.Object, error) {
	switch kind {
	case api.KindQueue:
		return func(o api.Object) api.Object {
			q := *o.(*api.Queue)
			q.Status.Pending, q.Status.Running = s.tasks.counts(q.Meta.Name)
			return &q
		}, nil
	case api.KindZone:
		return s.zonePresenter(ctx)
	}
	return hide, nil
}

func (s *Server) zonePresenter(ctx context.Context) (func(api.Object) api.Object, error) {
	nodes, err := s.Store.List(ctx, api.KindNode, "", 0)
	if err != nil {
		return nil, err
	}
	by := countNodes(nodes)
	return func(o api.Object) api.Object {
		z := *o.(*api.Zone)
		count := by[z.Meta.Name]
		z.Status.Nodes, z.Status.Ready, z.Status.Devices = count.Nodes, count.Ready, count.Devices
		switch {
		case z.Spec.Health != "":
			z.Status.Health = z.Spec.Health
		case z.Status.Health == "" && count.Ready < count.Nodes:
			z.Status.Health = api.ZoneDegraded
		case z.Status.Health == "":
			z.Status.Health = api.ZoneHealthy
		}
		return &z
	}, nil
}

func countNodes(nodes store.Snapshot) map[string]api.ZoneStatus {
	by := map[string]api.ZoneStatus{}
	nodes.Ascend("", func(o api.Object) bool {
		n := o.(*api.Node)
		z := by[n.Spec.Zone]
		z.Nodes++
		z.Devices += len(n.Spec.Devices)
		if n.Status.Ready {
			z.Ready++
		}
		by[n.Spec.Zone] = z
		return true
	})
	return by
}
