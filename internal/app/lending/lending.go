// Package lending says which datasets and models a replica may have, and how far they are on their way to it.
//
// Place: layer 6, part of the assembly: it ties the desk of link/lend to the store and to what launchers say. Promise: a replica gets what its own work
// names, while its attempt runs. Enemies: a replica of another project that knows a hash.
package lending

import (
	"context"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Book is what is asked about a replica.
type Book struct {
	// Work finds work by its id, Project a project by its name.
	Work    func(ctx context.Context, id string) (api.Work, error)
	Project func(ctx context.Context, key api.Key, minRevision int64) (api.Object, error)
	// Current says nothing where a replica is of the attempt that runs now.
	Current func(ctx context.Context, of link.Parts) error
}

// Names finds the project of a replica whose work names the version with this list.
func (b Book) Names(ctx context.Context, of link.Parts, digest string) (string, error) {
	if err := b.Current(ctx, of); err != nil {
		return "", err
	}
	work, err := b.Work(ctx, of.TaskID)
	if err != nil {
		return "", err
	}
	w := work.Workload()
	named := slices.Concat(w.Program.Datasets, w.Program.Models)
	if w.Program.Home != nil {
		named = append(named, *w.Program.Home)
	}
	if !slices.ContainsFunc(named, func(r api.AssetRef) bool { return r.Digest == digest }) {
		return "", fault.New(fault.Forbidden, "NotItsVersion", fault.T("The work of this replica does not name that version.", "该副本所属的任务未声明此版本。"))
	}
	p, err := b.Project(ctx, api.Key{Kind: api.KindProject, Name: w.Meta.Project}, 0)
	if err != nil {
		return "", err
	}
	return p.GetMeta().ID, nil
}

// said is what launchers say; link.Hub.
type said interface {
	Ranks(name engine.Name) (link.Ranks, bool)
}

// most is how many lines an explanation has about what replicas wait for.
const most = 8

// Waits is what replicas wait for, of those that have not ended.
func Waits(hub said, all []engine.Observation) (out []fault.Text) {
	for i := range all {
		if text := WaitsFor(hub, &all[i]); text != (fault.Text{}) && len(out) < most {
			out = append(out, text)
		}
	}
	return out
}

// WaitsFor is what one replica waits for; zero: nothing.
func WaitsFor(hub said, o *engine.Observation) fault.Text {
	ranks, ok := hub.Ranks(o.Name)
	b := ranks.Bringing
	if !ok || b == nil || o.Exit != nil {
		return fault.Text{}
	}
	return fault.T("%s is on its way to the node: %s of %s", "%s 正在传输到节点：%s / %s", b.Name, api.Bytes(b.Done), api.Bytes(b.Total))
}
