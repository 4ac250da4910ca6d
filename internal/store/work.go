package store

import (
	"context"

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
