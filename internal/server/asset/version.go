package asset

import (
	"context"
	"slices"
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	keep "github.com/fermi-cluster/fermi/internal/asset"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/server/refuse"
	"github.com/fermi-cluster/fermi/internal/server/rest"
	"github.com/fermi-cluster/fermi/internal/server/truth"
	"github.com/fermi-cluster/fermi/internal/store"
)

// versions knows which there are, and makes and deletes them.
type versions struct {
	Deps
	lists lists
}

func (s *versions) unchanged(v *asset.AssetVersion) *rest.Reply {
	return &rest.Reply{Message: fault.T("Nothing changed: it is version %d", "内容没有变化，仍为版本 %d", v.Spec.Number), Data: v, Revision: v.Meta.Revision}
}

// Publish writes a version down, behind the newest one; who says it again gets the same one.
func (s *versions) Publish(ctx context.Context, c *rest.Call, p *api.Project, a asset.Asset, spec asset.VersionSpec, m *asset.Manifest) (*rest.Reply, error) {
	if a.Kind() == asset.ModelKind && spec.Source == nil {
		var err error
		if spec.Format, err = s.formatOf(ctx, p.Meta.ID, m); err != nil {
			return nil, err
		}
	}
	for range truth.Retries {
		if a.GetMeta().DeletedAt != nil {
			break
		}
		newest, err := s.newest(ctx, a)
		if err != nil {
			return nil, err
		}
		if newest != nil && newest.Spec.Manifest == spec.Manifest {
			return s.unchanged(newest), nil
		}
		if spec.New, err = s.fresh(ctx, p.Meta.ID, newest, m); err != nil {
			return nil, err
		}
		v, next := s.version(c, a, spec)
		rev, err := s.Finder.Truth.Write(ctx, store.Create(v), store.Update(next))
		if err == nil {
			c.Note.Before(a)
			c.Note.After(next)
			c.Tell(next, "VersionMade", fault.T("Version %d was made.", "已创建版本 %d。", v.Spec.Number))
			return &rest.Reply{Message: fault.T("Version %d is made", "已创建版本 %d", v.Spec.Number), Data: v, Revision: rev}, nil
		}
		if r := fault.ReasonOf(err); r != "Stale" && r != "NameTaken" {
			return nil, err
		}
		o, err := s.Finder.Truth.Get(ctx, api.KeyOf(a), a.GetMeta().Revision+1)
		if err != nil {
			return nil, err
		}
		if o.GetMeta().ID != a.GetMeta().ID {
			break
		}
		a = o.(asset.Asset)
	}
	return nil, fault.New(fault.Conflict, "Stale", fault.T("It changes all the time, or is gone; try again.", "该对象频繁变化或已被删除，请重试。"))
}

// version is the object of a new version, and what the asset becomes with it.
func (s *versions) version(c *rest.Call, a asset.Asset, spec asset.VersionSpec) (*asset.AssetVersion, asset.Asset) {
	now := s.Clock.Now().UTC()
	next := store.Clone(a)
	st := next.State()
	st.Latest++
	st.Versions++
	st.Size, st.Format, st.At = spec.Size, spec.Format, &now
	next.GetMeta().UpdatedAt = now
	meta := a.GetMeta()
	spec.Kind, spec.Asset, spec.AssetID, spec.Number = a.Kind(), meta.Name, meta.ID, st.Latest
	owner := meta.Owner
	spec.Private = asset.IsPrivate(a)
	if !spec.Private && c != nil && c.Who != nil && c.Who.User != nil {
		owner = c.Who.User.Meta.Name
	}
	name := asset.VersionName(a.Kind(), meta.Name, st.Latest)
	return &asset.AssetVersion{
		Meta: api.Meta{
			ID: s.IDs.New(api.MustInfo(asset.VersionKind).IDPrefix), Name: name, DisplayName: meta.DisplayName + " " + strconv.Itoa(st.Latest), Project: meta.Project,
			Owner: owner, CreatedAt: now, UpdatedAt: now,
		},
		Spec: spec,
	}, next
}

// fresh is what of a version the one before has not.
func (s *versions) fresh(ctx context.Context, project string, newest *asset.AssetVersion, m *asset.Manifest) (n api.Bytes, err error) {
	had := map[asset.Hash]bool{}
	if newest != nil && newest.Spec.Source == nil {
		before, err := s.list(ctx, project, newest)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return 0, err
		}
		if before != nil {
			for _, c := range before.Chunks {
				had[c.Hash] = true
			}
		}
	}
	for _, c := range m.Chunks {
		if !had[c.Hash] {
			had[c.Hash] = true
			n += api.Bytes(c.Bytes)
		}
	}
	return n, nil
}

// of are the versions of an asset, newest first.
func (s *versions) of(ctx context.Context, a api.Object, rev int64) ([]*asset.AssetVersion, error) {
	snap, err := s.Finder.Truth.List(ctx, asset.VersionKind, a.GetMeta().Project, rev)
	if err != nil {
		return nil, err
	}
	out := []*asset.AssetVersion{}
	snap.Ascend("", func(o api.Object) bool {
		if v := o.(*asset.AssetVersion); v.Spec.AssetID == a.GetMeta().ID {
			out = append(out, v)
		}
		return true
	})
	slices.SortFunc(out, func(x, y *asset.AssetVersion) int { return y.Spec.Number - x.Spec.Number })
	return out, nil
}

// newest is nil where there is none.
func (s *versions) newest(ctx context.Context, a asset.Asset) (*asset.AssetVersion, error) {
	all, err := s.of(ctx, a, a.GetMeta().Revision)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

func (s *versions) called(ctx context.Context, kind api.Kind, project, nameOrID, version string) (*asset.AssetVersion, error) {
	row, ok := api.InfoOf(kind)
	if !ok {
		return nil, fault.New(fault.NotFound, "NotFound", fault.T("This server keeps no datasets and models.", "该服务器不保存数据集与模型。"))
	}
	rev := s.Finder.Truth.Newest()
	o, err := s.Finder.Truth.Find(ctx, api.Key{Kind: kind, Project: project, Name: nameOrID}, rev)
	if fault.Is(err, fault.NotFound) {
		if o, err = s.Finder.Truth.GetByID(ctx, kind, nameOrID, rev); err == nil && o.GetMeta().Project != project {
			return nil, refuse.Missing(row, nameOrID)
		}
	}
	if fault.Is(err, fault.NotFound) {
		return nil, refuse.Missing(row, nameOrID)
	}
	if err != nil {
		return nil, err
	}
	return s.find(ctx, o.(asset.Asset), version, rev)
}

// find finds a version by what people call it: a number, with or without v, its id, latest or nothing, of a model an alias or a stage.
func (s *versions) find(ctx context.Context, a asset.Asset, version string, rev int64) (*asset.AssetVersion, error) {
	all, err := s.of(ctx, a, max(rev, a.GetMeta().Revision))
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fault.New(fault.NotFound, "NoVersions", fault.T("%s %q has no versions yet.", "%s %q 还没有任何版本。", a.Kind(), a.GetMeta().Name))
	}
	if version == "" || version == asset.Latest {
		return all[0], nil
	}
	number, err := strconv.Atoi(strings.TrimPrefix(version, "v"))
	if err != nil {
		number = meant(a, version, all)
	}
	for _, v := range all {
		if v.Spec.Number == number || v.Meta.ID == version {
			return v, nil
		}
	}
	var have []string
	for _, v := range all[:min(len(all), 20)] {
		have = append(have, strconv.Itoa(v.Spec.Number))
	}
	return nil, fault.New(fault.NotFound, "NoSuchVersion", fault.T("%s %q has no version %q; there are: %s.", "%s %q 没有版本 %q；现有版本：%s。", a.Kind(), a.GetMeta().Name, refuse.Clip(version, 64), strings.Join(have, ", ")))
}

// meant is the number of a model's version with this alias, or the newest with this stage; 0: there is none.
func meant(a asset.Asset, name string, all []*asset.AssetVersion) int {
	m, ok := a.(*asset.Model)
	if !ok {
		return 0
	}
	if n, ok := m.Spec.Aliases[name]; ok {
		return n
	}
	for _, v := range all {
		if string(m.Spec.Stages[strconv.Itoa(v.Spec.Number)]) == name {
			return v.Spec.Number
		}
	}
	return 0
}

// named refuses aliases and stages of versions that are not there.
func (s *versions) named(ctx context.Context, o api.Object, latest int) error {
	m, ok := o.(*asset.Model)
	if !ok || len(m.Spec.Aliases)+len(m.Spec.Stages) == 0 {
		return nil
	}
	var all []*asset.AssetVersion
	if latest > 0 {
		var err error
		if all, err = s.of(ctx, o, s.Finder.Truth.Newest()); err != nil {
			return err
		}
	}
	is := func(n int) bool {
		return slices.ContainsFunc(all, func(v *asset.AssetVersion) bool { return v.Spec.Number == n })
	}
	for name, n := range m.Spec.Aliases {
		if !is(n) {
			return refuse.Invalid("spec.aliases."+name, fault.T("There is no version %d.", "没有版本 %d。", n))
		}
	}
	for number := range m.Spec.Stages {
		if n, _ := strconv.Atoi(number); !is(n) {
			return refuse.Invalid("spec.stages."+number, fault.T("There is no version %s.", "没有版本 %s。", number))
		}
	}
	return nil
}

func (s *versions) listVersions(ctx context.Context, _ *rest.Call, a asset.Asset) (*rest.Reply, error) {
	all, err := s.of(ctx, a, a.GetMeta().Revision)
	return &rest.Reply{Data: map[string]any{"items": all}, Revision: a.GetMeta().Revision}, err
}

func (s *versions) getVersion(ctx context.Context, c *rest.Call, a asset.Asset) (*rest.Reply, error) {
	v, err := s.find(ctx, a, c.R.PathValue("version"), 0)
	if err != nil {
		return nil, err
	}
	return &rest.Reply{Data: v, Revision: v.Meta.Revision}, nil
}

// uses says that work which has not ended names a version of an asset; 0: any.
func uses(a api.Object, number int) func(api.Workload) bool {
	return func(w api.Workload) bool {
		refs := w.Program.Datasets
		if a.Kind() == asset.ModelKind {
			refs = w.Program.Models
		}
		return !w.Phase.Finished() && slices.ContainsFunc(refs, func(r api.AssetRef) bool {
			return r.Name == a.GetMeta().Name && (number == 0 || r.Version == strconv.Itoa(number))
		})
	}
}

// unused refuses to delete what runs with it; its versions go with it.
func (s *versions) unused(ctx context.Context, o api.Object, rev int64) ([]store.Op, error) {
	if err := s.Finder.Truth.NoWork(ctx, o.GetMeta().Project, rev, uses(o, 0)); err != nil {
		return nil, err
	}
	all, err := s.of(ctx, o, rev)
	if err != nil {
		return nil, err
	}
	const most = 50 // operations beside the delete itself
	for len(all) > most {
		ops := []store.Op{store.Unchanged(api.KeyOf(o), o.GetMeta().Revision)}
		for _, v := range all[len(all)-most:] {
			ops = append(ops, store.Delete(api.KeyOf(v), v.Meta.Revision))
		}
		if _, err := s.Finder.Truth.Write(ctx, ops...); err != nil {
			return nil, err
		}
		all = all[:len(all)-most]
	}
	var ops []store.Op
	for _, v := range all {
		ops = append(ops, store.Delete(api.KeyOf(v), v.Meta.Revision))
	}
	return ops, nil
}

// removeVersion deletes one that nothing uses.
func (s *versions) removeVersion(ctx context.Context, c *rest.Call, a asset.Asset) (*rest.Reply, error) {
	v, err := s.find(ctx, a, c.R.PathValue("version"), s.Finder.Truth.Newest())
	if err != nil {
		return nil, err
	}
	for range truth.Retries {
		next := store.Clone(a)
		if err := s.letGo(next, v); err != nil {
			return nil, err
		}
		// Everything committed so far must be looked at, not only what the cache has seen.
		rev, err := s.Finder.Truth.Commit(ctx, store.Txn{Ops: []store.Op{store.Unchanged(api.KeyOf(a), a.GetMeta().Revision)}})
		if err == nil {
			if err := s.Finder.Truth.NoWork(ctx, a.GetMeta().Project, rev, uses(a, v.Spec.Number)); err != nil {
				return nil, err
			}
			rev, err = s.Finder.Truth.Write(ctx, store.Delete(api.KeyOf(v), v.Meta.Revision), store.Update(next))
		}
		if err == nil {
			c.Note.Before(a)
			c.Note.After(next)
			c.Tell(next, "VersionDeleted", fault.T("Version %d was deleted.", "已删除版本 %d。", v.Spec.Number))
			return &rest.Reply{Message: fault.T("Version %d is deleted", "已删除版本 %d", v.Spec.Number), Data: v, Revision: rev}, nil
		}
		if fault.ReasonOf(err) != "Stale" {
			return nil, err
		}
		o, err := s.Finder.Truth.Get(ctx, api.KeyOf(a), a.GetMeta().Revision+1)
		if err != nil {
			return nil, err
		}
		a = o.(asset.Asset)
	}
	return nil, fault.New(fault.Conflict, "Stale", fault.T("It changes all the time; try again.", "该对象频繁变化，请重试。"))
}

// letGo takes a version out of what its asset says; one that has an alias stays.
func (s *versions) letGo(next asset.Asset, v *asset.AssetVersion) error {
	next.State().Versions--
	next.GetMeta().UpdatedAt = s.Clock.Now().UTC()
	m, ok := next.(*asset.Model)
	if !ok {
		return nil
	}
	for alias, n := range m.Spec.Aliases {
		if n == v.Spec.Number {
			return fault.New(fault.Conflict, "InUse", fault.T("Version %d is what the alias %q means.", "别名 %[2]q 指向版本 %[1]d。", n, alias)).
				WithHint(fault.T("Give the alias to another version first.", "请先将该别名指向其他版本。"))
		}
	}
	delete(m.Spec.Stages, strconv.Itoa(v.Spec.Number))
	return nil
}

// formatOf reads from the bytes what a model is.
func (s *versions) formatOf(ctx context.Context, project string, m *asset.Manifest) (string, error) {
	return keep.FormatOf(m, func(i int) keep.ReadSeeker { return s.Repo.OpenFile(ctx, project, m, i) })
}

// list is the manifest of a version.
func (s *versions) list(ctx context.Context, project string, v *asset.AssetVersion) (*asset.Manifest, error) {
	key := project + "/" + v.Spec.Manifest
	if m := s.lists.get(key); m != nil {
		return m, nil
	}
	m, _, err := s.Repo.Manifest(ctx, project, v.Spec.Manifest, v.Spec.Source != nil)
	if err == nil {
		s.lists.put(key, m)
	}
	return m, err
}

// project is the one that an asset belongs to.
func (s *versions) project(ctx context.Context, a api.Object) (*api.Project, error) {
	o, err := s.Finder.Truth.Refer(ctx, api.Key{Kind: api.KindProject, Name: a.GetMeta().Project}, "metadata.project")
	if err != nil {
		return nil, err
	}
	return o.(*api.Project), nil
}
