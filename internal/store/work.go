package store

import (
	"context"
	"slices"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// WorkByID finds work by its id, whatever its kind. It fails with fault NotFound.
func WorkByID(ctx context.Context, r Reader, id string, minRevision int64) (api.Work, error) {
	for _, kind := range api.WorkKinds() {
		o, err := r.GetByID(ctx, kind, id, minRevision)
		if err == nil {
			return o.(api.Work), nil
		}
		if !fault.Is(err, fault.NotFound) {
			return nil, err
		}
	}
	return nil, notFound("work " + id)
}

// HostOf finds the work of this name that others may run inside: an environment goes before a task. It fails with fault NotFound.
func HostOf(ctx context.Context, r Reader, project, name string) (api.Work, error) {
	for _, kind := range slices.Backward(api.WorkKinds()) {
		o, err := r.Get(ctx, api.Key{Kind: kind, Project: project, Name: name}, 0)
		if w, ok := o.(api.Work); err == nil && ok {
			return w, nil
		}
		if !fault.Is(err, fault.NotFound) {
			return nil, err
		}
	}
	return nil, notFound("work " + name)
}
