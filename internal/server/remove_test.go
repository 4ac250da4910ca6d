package server

import (
	"context"
	"sync"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/store"
)

// behind is a store whose cache is late: a read without a revision sees a key as it was noted, until a commit
// that met what is newer has waited for it, as the real one does.
type behind struct {
	Store
	mu  sync.Mutex
	old map[api.Key]api.Object
}

func (b *behind) Get(ctx context.Context, key api.Key, minRevision int64) (api.Object, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o := b.old[key]; o != nil && o.GetMeta().Revision >= minRevision {
		return o, nil
	}
	return b.Store.Get(ctx, key, minRevision)
}

func (b *behind) Commit(ctx context.Context, txn store.Txn) (int64, error) {
	rev, err := b.Store.Commit(ctx, txn)
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		clear(b.old)
	}
	return rev, err
}

// A DELETE right after the same caller's PUT is not refused because this server's cache has not seen the PUT.
func TestDeleteAfterChange(t *testing.T) {
	late := &behind{old: map[api.Key]api.Object{}}
	w := newWorld(t, func(c *Config) { late.Store, c.Store = c.Store, late })
	for _, c := range []struct {
		kind api.Kind
		path string
		body string
	}{
		{api.KindToken, "/api/v1/tokens/x", `{"metadata":{"name":"x"}}`},
		{api.KindQueue, "/api/v1/queues/x", `{"metadata":{"name":"x"}}`},
	} {
		w.ok("POST", c.path[:len(c.path)-2], c.body, nil)
		o := api.MustInfo(c.kind).New()
		w.ok("GET", c.path, nil, o)
		before, err := w.store.Get(t.Context(), api.Key{Kind: c.kind, Name: "x"}, o.GetMeta().Revision)
		must(t, err)
		o.GetMeta().Labels = map[string]string{"a": "b"}
		w.ok("PUT", c.path, o, nil)
		late.mu.Lock()
		late.old[api.Key{Kind: c.kind, Name: "x"}] = before
		late.mu.Unlock()
		w.ok("DELETE", c.path, nil, nil)
		w.refused("GET", c.path, nil, 404, "NotFound")
	}
}
