package tenant

import (
	"context"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store"
)

// listOf are all objects of a kind, as of this revision or a newer one.
func listOf[T api.Object](ctx context.Context, s store.Reader, kind api.Kind, revision int64) ([]T, error) {
	snap, err := s.List(ctx, kind, "", revision)
	if err != nil {
		return nil, err
	}
	var out []T
	snap.Ascend("", func(o api.Object) bool {
		out = append(out, o.(T))
		return true
	})
	return out, nil
}

func projectsOf(ctx context.Context, s store.Reader, revision int64) ([]*api.Project, error) {
	return listOf[*api.Project](ctx, s, api.KindProject, revision)
}

// projectOf is a project to change.
func projectOf(ctx context.Context, s store.Reader, name string, revision int64) (*api.Project, error) {
	o, err := s.Get(ctx, api.Key{Kind: api.KindProject, Name: name}, revision)
	if err != nil {
		return nil, err
	}
	return store.Clone(o.(*api.Project)), nil
}

// queuesOf are those of these queues that there are, to change.
func queuesOf(ctx context.Context, s store.Reader, names []string, revision int64) ([]*api.Queue, error) {
	var out []*api.Queue
	for _, name := range names {
		o, err := s.Get(ctx, api.Key{Kind: api.KindQueue, Name: name}, revision)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, store.Clone(o.(*api.Queue)))
	}
	return out, nil
}

// Used are the numbers that projects have.
func Used(ctx context.Context, s store.Reader, revision int64) ([]int, error) {
	all, err := projectsOf(ctx, s, revision)
	return numbers(all), err
}
