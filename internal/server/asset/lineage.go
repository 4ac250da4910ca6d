package asset

import (
	"context"
	"slices"
	"strconv"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server/rest"
)

// Lineage is what versions come from and what they go into.
type Lineage struct {
	Versions []LineageVersion `json:"versions"`
}

// LineageVersion is one version, newest first.
type LineageVersion struct {
	Number int           `json:"number"`
	At     time.Time     `json:"at"`
	Origin *asset.Origin `json:"origin,omitempty"`
	UsedBy []LineageUse  `json:"usedBy,omitempty" doc:"The newest thousand tasks of the project are looked at, and all that lives."`
	Models []LineageMade `json:"models,omitempty" doc:"Versions of models and datasets that tasks made which read it."`
}

// LineageUse is work that reads a version.
type LineageUse struct {
	Kind  api.Kind  `json:"kind"`
	Name  string    `json:"name"`
	ID    string    `json:"id"`
	Phase api.Phase `json:"phase,omitempty"`
}

// LineageMade is a version of a model, or of a dataset.
type LineageMade struct {
	Model   string `json:"model,omitempty"`
	Dataset string `json:"dataset,omitempty"`
	Version int    `json:"version"`
	Task    string `json:"task"`
}

// maxEnded is how many tasks that are over are looked at.
const maxEnded = 1000

func (s *pages) lineage(ctx context.Context, _ *rest.Call, a asset.Asset) (*rest.Reply, error) {
	all, err := s.versions.of(ctx, a, a.GetMeta().Revision)
	if err != nil {
		return nil, err
	}
	used := map[string][]LineageUse{}
	seen := map[string]bool{}
	see := func(o api.Work) {
		if o.Kind() == serving.ReplicaKind {
			return // its service is there
		}
		w := o.Workload()
		refs := w.Program.Datasets
		if a.Kind() == asset.ModelKind {
			refs = w.Program.Models
		}
		for _, r := range refs {
			if r.Name == a.GetMeta().Name && !seen[w.Meta.ID+"/"+r.Version] {
				seen[w.Meta.ID+"/"+r.Version] = true
				used[r.Version] = append(used[r.Version], LineageUse{o.Kind(), w.Meta.Name, w.Meta.ID, w.Phase})
			}
		}
	}
	if err := s.Finder.Truth.EachWork(ctx, a.GetMeta().Project, 0, func(o api.Work) bool { see(o); return true }); err != nil {
		return nil, err
	}
	ended, err := s.Finder.History.ListArchived(ctx, history.ListQuery{Kind: api.KindTrainingTask, Project: a.GetMeta().Project, Desc: true, Limit: maxEnded})
	if err != nil {
		return nil, err
	}
	for _, row := range ended {
		if o, ok := row.Object.(api.Work); ok {
			see(o)
		}
	}
	made, err := s.made(ctx, a)
	if err != nil {
		return nil, err
	}
	out := Lineage{Versions: []LineageVersion{}}
	for _, v := range all {
		out.Versions = append(out.Versions, LineageVersion{v.Spec.Number, v.Meta.CreatedAt, v.Spec.Origin, used[strconv.Itoa(v.Spec.Number)], made[v.Spec.Number]})
	}
	return &rest.Reply{Data: out, Revision: a.GetMeta().Revision}, nil
}

// made are the versions whose task read an asset, by the asset's version.
func (s *pages) made(ctx context.Context, a asset.Asset) (map[int][]LineageMade, error) {
	out := map[int][]LineageMade{}
	snap, err := s.Finder.Truth.List(ctx, asset.VersionKind, a.GetMeta().Project, 0)
	if err != nil {
		return nil, err
	}
	snap.Ascend("", func(o api.Object) bool {
		v := o.(*asset.AssetVersion)
		if v.Spec.Origin == nil {
			return true
		}
		read := v.Spec.Origin.Datasets
		if a.Kind() == asset.ModelKind {
			read = v.Spec.Origin.Models
		}
		if i := slices.IndexFunc(read, func(d asset.VersionAt) bool { return d.Name == a.GetMeta().Name }); i >= 0 {
			one := LineageMade{Model: v.Spec.Asset, Version: v.Spec.Number, Task: v.Spec.Origin.Task}
			if v.Spec.Kind == asset.DatasetKind {
				one.Model, one.Dataset = "", v.Spec.Asset
			}
			out[read[i].Version] = append(out[read[i].Version], one)
		}
		return true
	})
	return out, nil
}
