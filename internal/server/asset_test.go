package server

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	keep "github.com/fermi-cluster/fermi/internal/asset"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// The program registers these kinds, before anything else.
func init() {
	for _, row := range asset.Rows {
		api.Register(row)
	}
}

// assetPaths are those of a kind that has versions, by what may be done there.
func assetPaths(one string) map[string][]string {
	return map[string][]string{
		one + "/uploads": {"post"}, one + "/chunks/{hash}": {"get", "put"}, one + "/versions": {"get", "post"}, one + "/versions/{version}": {"get", "delete"}, one + "/lineage": {"get"},
		one + "/versions/{version}/files": {"get"}, one + "/versions/{version}/files/{path}": {"get"}, one + "/versions/{version}/preview": {"get"},
		one + "/versions/{version}/manifest": {"get"}, one + "/versions/{version}/chunks/{hash}": {"get"},
	}
}

// anyAsset is a dataset or model that is there.
func (w *world) anyAsset(kind api.Kind) string {
	w.t.Helper()
	at := "/api/v1/" + api.MustInfo(kind).Plural
	if a := w.do("GET", at+"/any?project=default", w.admin, nil); a.status != 200 {
		w.ok("POST", at, `{"metadata":{"name":"any","project":"default"}}`, nil)
	}
	return "any"
}

// listing is the list of a version of one file.
func listing(m *matrix, text string) (*asset.Manifest, []byte) {
	m.t.Helper()
	list, err := asset.Build(m.t.Context(), []asset.File{{Path: "worker-0/f", Size: int64(len(text))}}, func(string) (io.ReadCloser, error) {
		return struct {
			io.ReadSeeker
			io.Closer
		}{strings.NewReader(text), io.NopCloser(nil)}, nil
	}, nil)
	must(m.t, err)
	raw, _ := list.Encode()
	return list, raw
}

// bytesOf are those of the matrix's versions, in the project that all is about.
func (m *matrix) bytesOf() (repo *keep.Repo, project string) {
	m.t.Helper()
	return keep.New(m.blob, clock.Real, 0), m.lookup(api.Key{Kind: api.KindProject, Name: "lab"}).GetMeta().ID
}

// asset makes a dataset or model with one version.
func (m *matrix) asset(kind api.Kind, meta api.Meta) asset.Asset {
	m.t.Helper()
	repo, project := m.bytesOf()
	list, raw := listing(m, "x")
	must(m.t, repo.PutChunk(m.t.Context(), project, list.Chunks[0].Hash, []byte("x")))
	must(m.t, repo.PutManifest(m.t.Context(), project, raw))
	meta.Project = "lab"
	var o asset.Asset = &asset.Dataset{Meta: meta}
	if kind == asset.ModelKind {
		o = &asset.Model{Meta: meta}
	}
	*o.State() = asset.AssetStatus{Latest: 1, Versions: 1, Size: 1}
	m.put(o)
	m.put(&asset.AssetVersion{
		Meta: api.Meta{Name: asset.VersionName(kind, meta.Name, 1), Project: "lab", Owner: "root"},
		Spec: asset.VersionSpec{Kind: kind, Asset: meta.Name, AssetID: o.GetMeta().ID, Number: 1, Manifest: asset.Sum(raw).String(), Files: 1, Size: 1},
	})
	return o
}

// assetAsk is what a person asks of a route about versions and their bytes; ok is false where the route is like any other.
func (m *matrix) assetAsk(rt *rest.Route, p *person) (a ask, ok bool) {
	m.t.Helper()
	if rt.Kind != asset.DatasetKind && rt.Kind != asset.ModelKind || !strings.Contains(rt.Path, "{name}/") {
		return ask{}, false
	}
	o := m.asset(rt.Kind, api.Meta{Name: fmt.Sprintf("a%d", m.next()), Owner: "root"})
	a = ask{yours: p.inside}
	hash := asset.Sum([]byte("x")).String()
	switch {
	case strings.HasPrefix(rt.ID, "put"):
		text := "chunk of " + o.GetMeta().Name
		hash, a.body = asset.Sum([]byte(text)).String(), text
	case strings.HasPrefix(rt.ID, "begin"):
		_, raw := listing(m, "list of "+o.GetMeta().Name)
		a.body = string(raw)
	case strings.HasPrefix(rt.ID, "create"):
		repo, project := m.bytesOf()
		text := "version of " + o.GetMeta().Name
		list, raw := listing(m, text)
		_, _, _, err := repo.Begin(m.t.Context(), project, bytes.Clone(raw))
		must(m.t, err)
		must(m.t, repo.PutChunk(m.t.Context(), project, list.Chunks[0].Hash, []byte(text)))
		a.body = map[string]string{"upload": asset.Sum(raw).String()}
	}
	a.path = strings.NewReplacer("{name}", o.GetMeta().Name, "{version}", "1", "{hash}", hash, "{path...}", "worker-0/f").Replace(rt.Path) + "?project=lab"
	if strings.HasPrefix(rt.ID, "preview") {
		a.path += "&path=worker-0/f"
	}
	return a, true
}

func (m *matrix) next() int {
	m.n++
	return m.n
}
