package train

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/mount"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/access"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/store"
)

// FindVersion finds a version of a dataset or model, called by name or id, in a project.
type FindVersion func(ctx context.Context, kind api.Kind, project, nameOrID, version string) (*asset.AssetVersion, error)

// assetFields are those of the flat form that become lists.
var assetFields = []string{"datasetId", "datasetVersionId", "modelId"}

// flatAssets puts the data and the model of the flat form into a spec.
func flatAssets(flat, spec map[string]json.RawMessage) error {
	text := map[string]string{}
	for _, name := range assetFields {
		raw, ok := flat[name]
		if !ok {
			continue
		}
		var one string
		if err := json.Unmarshal(raw, &one); err != nil {
			return refuse.Invalid(name, fault.T("It must be a text.", "应为字符串。"))
		}
		text[name] = one
	}
	datasets, models := namedAssets(text["datasetId"], text["datasetVersionId"], text["modelId"])
	for name, refs := range map[string][]api.AssetRef{"datasets": datasets, "models": models} {
		if len(refs) == 0 {
			continue
		}
		raw, err := json.Marshal(refs)
		if err != nil {
			return err
		}
		spec[name] = raw
	}
	return nil
}

// namedAssets are what a request with one dataset and one model means.
func namedAssets(dataset, version, model string) (datasets, models []api.AssetRef) {
	if dataset != "" {
		datasets = []api.AssetRef{{Name: dataset, Version: version}}
	}
	if model != "" {
		models = []api.AssetRef{{Name: model}}
	}
	return datasets, models
}

// keepRefs takes the versions that work was made with for the names that it was given.
func keepRefs(given, current []api.AssetRef) []api.AssetRef {
	same := slices.EqualFunc(given, current, func(g, c api.AssetRef) bool {
		_, numbered := strconv.Atoi(g.Version)
		return g.Name == c.Name && g.Path == c.Path && (g.Version == c.Version || numbered != nil)
	})
	if same {
		return current
	}
	return given
}

// stillThere refuses to run work again whose datasets or models are gone: nothing kept them while it did not run.
func stillThere(ctx context.Context, find FindVersion, w *api.Workload) error {
	for kind, refs := range map[api.Kind][]api.AssetRef{asset.DatasetKind: w.Program.Datasets, asset.ModelKind: w.Program.Models} {
		for _, r := range refs {
			v, err := find(ctx, kind, w.Meta.Project, r.Name, r.Version)
			if err == nil && v.Spec.Manifest == r.Digest {
				continue
			}
			if err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
			return fault.New(fault.Conflict, "VersionGone", fault.T("%s@%s was deleted while %s did not run.", "%s@%s 在 %s 停止期间已被删除。", r.Name, r.Version, w.Meta.Name)).
				WithHint(fault.T("Name another version, then start it.", "请改用其他版本后再启动。"))
		}
	}
	return nil
}

// SettleAssets finds the versions that work names, and writes down which ones they are; what it returns must hold at the commit. The work is not
// anybody else's yet. who names them; nil: the server itself, which sees nothing private.
func (s *Gate) SettleAssets(ctx context.Context, who *access.Caller, o api.Work) ([]store.Op, error) {
	w := o.Workload()
	if bad := mount.Check("spec", w.Program.Datasets, w.Program.Models); len(bad) > 0 {
		return nil, fault.New(fault.Invalid, "InvalidField", fault.T("Some fields are wrong.", "部分字段有误。")).WithFields(bad...)
	}
	var ops []store.Op
	for _, list := range []struct {
		kind  api.Kind
		field string
		under string
		refs  []api.AssetRef
	}{{asset.DatasetKind, "datasets", mount.Data, w.Program.Datasets}, {asset.ModelKind, "models", mount.Models, w.Program.Models}} {
		for i := range list.refs {
			r, called := &list.refs[i], list.refs[i].Name
			v, err := settle(ctx, s, who, w.Meta.Project, list.kind, fmt.Sprintf("spec.%s[%d]", list.field, i), r)
			if err != nil {
				return nil, err
			}
			if r.Path == list.under+"/"+called { // it was called by its id
				r.Path = list.under + "/" + r.Name
			}
			ops = append(ops, store.Unchanged(api.KeyOf(v), v.Meta.Revision))
		}
	}
	if from := w.Program.Home; from != nil && w.Attempt == 0 { // what it began with is settled once
		v, err := settle(ctx, s, who, w.Meta.Project, asset.DatasetKind, "spec.from", from)
		if err != nil {
			return nil, err
		}
		if v.Spec.Source != nil || v.Spec.Metadata[devenv.HomeMark] != devenv.HomeFormat {
			return nil, refuse.Invalid("spec.from", fault.T("%s@%s is no snapshot of a home; fermi env snapshot NAME makes one.", "%s@%s 不是主目录快照；可用 fermi env snapshot 环境 创建。", from.Name, from.Version))
		}
		ops = append(ops, store.Unchanged(api.KeyOf(v), v.Meta.Revision))
	}
	return ops, nil
}

// settle writes down which version a ref means, if who names it may use it; at is its field.
func settle(ctx context.Context, s *Gate, who *access.Caller, project string, kind api.Kind, at string, r *api.AssetRef) (*asset.AssetVersion, error) {
	v, err := s.versions(ctx, kind, project, r.Name, r.Version)
	if fault.Is(err, fault.NotFound) {
		return nil, refuse.Invalid(at, fault.From(err).Message)
	}
	if err != nil {
		return nil, err
	}
	if v.Spec.Private && (who == nil || !who.Owns(v)) {
		row := api.MustInfo(kind)
		return nil, refuse.Invalid(at, fault.From(refuse.Missing(row, r.Name)).Message)
	}
	r.Name, r.Version = v.Spec.Asset, strconv.Itoa(v.Spec.Number)
	r.Settled = mount.Settled{Digest: v.Spec.Manifest, Size: int64(v.Spec.Size), Source: v.Spec.Source}
	return v, mayRead(ctx, s, project, at+".name", r.Source)
}

// mayRead refuses a version by reference whose folder the project was not granted, or whose account is gone.
func mayRead(ctx context.Context, s *Gate, project, at string, from *mount.Source) error {
	switch {
	case from == nil:
		return nil
	case from.S3 != nil:
		return s.checkSecretType(ctx, project, from.S3.Secret, at, api.SecretS3, api.SecretS3)
	}
	o, err := s.truth.Refer(ctx, api.Key{Kind: api.KindProject, Name: project}, "metadata.project")
	if err != nil {
		return err
	}
	return checkGranted(at, from.Folder, o.(*api.Project), s.folders, s.soleOwner)
}
