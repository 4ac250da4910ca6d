package asset

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	keep "github.com/fermi-cluster/fermi/internal/asset"
	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/audit"
	"github.com/fermi-cluster/fermi/internal/server/objects"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/stream"
	"github.com/fermi-cluster/fermi/internal/server/tenant"
)

// Deps is what the parts of the room share.
type Deps struct {
	Finder  *objects.Finder
	Repo    *keep.Repo
	Blob    blob.Store    // where outputs of tasks lie
	Stored  tenant.Stored // nil: nobody counts bytes
	Saved   Saved         // nil: there are no checkpoints
	Streams *stream.Streams
	Auditor *audit.Auditor
	IDs     *id.Source
	Clock   clock.Clock
	Log     *slog.Logger
	// Folders are those of the machines that an operator named. SoleOwner is who may use all of them; nil or "": nobody.
	Folders   []api.NamedFolder
	SoleOwner func() string
}

// Assets serves datasets and models. Safe for concurrent use.
type Assets struct {
	Deps
	versions *versions
	uploads  *uploads
	pages    *pages
}

// New makes the room of its parts.
func New(d Deps) *Assets {
	v := &versions{Deps: d}
	return &Assets{Deps: d, versions: v, uploads: &uploads{d, v, make(chan struct{}, maxSaved)}, pages: &pages{d, v}}
}

// Called finds a version for work of a project: the asset by name or id, the version by what people call it.
func (s *Assets) Called(ctx context.Context, kind api.Kind, project, nameOrID, version string) (*asset.AssetVersion, error) {
	return s.versions.called(ctx, kind, project, nameOrID, version)
}

// kinds are those that have versions.
var kinds = []api.Kind{asset.DatasetKind, asset.ModelKind}

// there says that the program has assets.
func there() bool {
	_, ok := api.InfoOf(asset.DatasetKind)
	return ok
}

// Hooks are the rows of datasets, models and their versions.
func (s *Assets) Hooks() []*objects.Hooks {
	if !there() {
		return nil
	}
	return []*objects.Hooks{
		s.hooks(asset.DatasetKind, map[string]any{"metadata": map[string]any{"name": "digits"}, "spec": map[string]any{"description": "Handwritten digits."}}),
		s.hooks(asset.ModelKind, map[string]any{"metadata": map[string]any{"name": "spiral"}, "spec": map[string]any{"description": "Which arm of the spiral."}}),
		{Kind: asset.VersionKind, Access: access.Kind{Read: access.ReadOwn, Private: asset.IsPrivate}},
	}
}

func (s *Assets) hooks(kind api.Kind, example map[string]any) *objects.Hooks {
	return &objects.Hooks{
		Kind:   kind,
		Access: access.Kind{Read: access.ReadOwn, Write: access.WriteTasks, Private: asset.IsPrivate},
		Read:   objects.Reading{Example: example},
		Fresh: func(o api.Object, _ *access.Caller) error {
			*o.(asset.Asset).State() = asset.AssetStatus{}
			return nil
		},
		References: func(ctx context.Context, _ *rest.Call, o api.Object) error { return s.versions.named(ctx, o, 0) },
		Change: func(ctx context.Context, _ *rest.Call, a *objects.Alteration) func() error {
			switch next := a.Next.(type) {
			case *asset.Dataset:
				next.Spec = a.Given.(*asset.Dataset).Spec
				next.Spec.Private = a.Current.(*asset.Dataset).Spec.Private // its versions were made so
			case *asset.Model:
				next.Spec = a.Given.(*asset.Model).Spec
			}
			return func() error { return s.versions.named(ctx, a.Next, a.Current.(asset.Asset).State().Latest) }
		},
		Remove: objects.Removing{Unused: s.versions.unused},
	}
}

// octets is a body of bytes.
var octets = &rest.BodySpec{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}, Media: []string{"application/octet-stream"}, Required: true}

// Routes are about versions and their bytes, the same for both kinds.
func (s *Assets) Routes(reg *rest.Schemas, rules *access.Rules) (out []*rest.Route) {
	if !there() {
		return nil
	}
	for _, kind := range kinds {
		out = append(out, s.routes(reg, rules, api.MustInfo(kind))...)
	}
	return out
}

func (s *Assets) routes(reg *rest.Schemas, rules *access.Rules, row api.KindInfo) []*rest.Route {
	one, word := rest.Prefix+"/"+row.Plural+"/{name}", string(row.Kind)
	version := reg.Kind(api.MustInfo(asset.VersionKind))
	read := func(path, id, summary string, query []rest.Param, data *huma.Schema, h handler) *rest.Route {
		rules.AsGet(id, row.Kind)
		return &rest.Route{
			Method: http.MethodGet, Path: one + "/" + path, ID: id, Summary: summary, Tag: row.Plural, Kind: row.Kind,
			Query: append(query, rest.ParamProject, rest.ParamRevision), Data: data, Handle: s.withAsset(row, false, h),
		}
	}
	write := func(method, path, id, summary, verb string, body *rest.BodySpec, data *huma.Schema, h handler, query ...rest.Param) *rest.Route {
		rules.AsWrite(id, row.Kind)
		return &rest.Route{
			Method: method, Path: one + "/" + path, ID: id, Summary: summary, Tag: row.Plural, Kind: row.Kind, Verb: verb,
			Query: append(query, rest.ParamProject), Body: body, Data: data, Handle: s.withAsset(row, true, h), Long: true,
		}
	}
	bytesOf := read("versions/{version}/files/{path...}", "read"+word+"File", "The bytes of one file, verified as they are read; ranges are served.", nil, nil, s.pages.readFile)
	bytesOf.Media, bytesOf.Verb, bytesOf.Look, bytesOf.Long = "application/octet-stream", "read-file", true, true
	manifest := read("versions/{version}/manifest", "read"+word+"Manifest", "The list of all its files and chunks; see docs/reference/asset-format.md.", nil, nil, s.pages.readManifest)
	manifest.Media, manifest.Long = "application/octet-stream", true
	chunk := read("versions/{version}/chunks/{hash}", "read"+word+"Chunk", "The bytes of one of its chunks.", nil, nil, s.pages.readChunk)
	chunk.Media, chunk.Long = "application/octet-stream", true
	return []*rest.Route{
		write(http.MethodPost, "uploads", "begin"+word+"Upload", "Begin an upload, or go on with it: the body is the list of files and chunks; the answer says which chunks are not there yet.", "begin-upload", octets, rest.SchemaOf[Upload](reg), s.uploads.begin, rest.Param{Name: "reference", Form: rest.FormBool, Doc: "The list is of files that lie elsewhere and stay there."}),
		read("chunks/{hash}", "has"+word+"Chunk", "Whether a chunk is there already, so that it need not be sent.", nil, rest.SchemaOf[ChunkThere](reg), s.uploads.hasChunk),
		write(http.MethodPut, "chunks/{hash}", "put"+word+"Chunk", "Send one chunk, of at most 4 MiB; several may be sent side by side.", "put-chunk", octets, rest.SchemaOf[ChunkKept](reg), s.uploads.putChunk),
		write(http.MethodPost, "versions", "create"+word+"Version", "Make a version of an upload whose chunks are all there. One that has the bytes of the newest already is that one.", "create-version", &rest.BodySpec{Schema: rest.SchemaOf[VersionWish](reg), Media: rest.JsonMedia, Required: true}, version, s.uploads.commit),
		write(http.MethodDelete, "versions/{version}", "delete"+word+"Version", "Delete a version that nothing uses. Its number is not used again.", "delete-version", nil, version, s.versions.removeVersion),
		read("versions", "list"+word+"Versions", "Its versions, newest first.", nil, rest.Object([]string{"items"}, map[string]*huma.Schema{"items": rest.ListOf(version)}), s.versions.listVersions),
		read("versions/{version}", "get"+word+"Version", "One version: its number, latest, or of a model an alias or a stage.", nil, version, s.versions.getVersion),
		read("versions/{version}/files", "list"+word+"Files", "What lies in a folder of a version.", []rest.Param{
			{Name: "path", Doc: "The folder; all of it when absent."}, {Name: "limit", Form: rest.FormInt, Min: 1, Max: 1000, Fallback: "200"}, {Name: "cursor", Doc: "next of the page before."},
		}, rest.SchemaOf[AssetFolder](reg), s.pages.browse),
		read("versions/{version}/preview", "preview"+word+"File", "The beginning of a file, as text, rows or a picture.", []rest.Param{{Name: "path", Doc: "The file."}}, rest.SchemaOf[asset.AssetPreview](reg), s.pages.preview),
		read("lineage", "get"+word+"Lineage", "What its versions were made from, and what uses them.", nil, rest.SchemaOf[Lineage](reg), s.pages.lineage),
		manifest, chunk, bytesOf,
	}
}

// handler answers about one dataset or model.
type handler func(ctx context.Context, c *rest.Call, a asset.Asset) (*rest.Reply, error)

// withAsset finds the one that a path names, and refuses who may not do what they want with it.
func (s *Assets) withAsset(row api.KindInfo, change bool, h handler) rest.Handler {
	return func(ctx context.Context, c *rest.Call) (*rest.Reply, error) {
		name := c.R.PathValue("name")
		c.Note.Names(row.Kind, name)
		f, err := s.Finder.Resolve(ctx, c, row, name)
		if err != nil {
			return nil, err
		}
		c.Note.About(f.Object)
		if change {
			if err := s.Finder.Judge.MayWrite(ctx, c.Who, f.Object); err != nil {
				return nil, err
			}
		}
		return h(ctx, c, f.Object.(asset.Asset))
	}
}
