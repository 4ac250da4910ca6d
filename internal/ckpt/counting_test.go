package ckpt

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/fermi-cluster/fermi/internal/blob"
)

// counting counts what is asked of a store.
type counting struct {
	Store
	n int32
}

func (c *counting) Put(ctx context.Context, key string, r io.Reader) (blob.Info, error) {
	atomic.AddInt32(&c.n, 1)
	return c.Store.Put(ctx, key, r)
}

func (c *counting) Create(ctx context.Context, key string, r io.Reader) (blob.Info, error) {
	atomic.AddInt32(&c.n, 1)
	return c.Store.Create(ctx, key, r)
}

func (c *counting) Open(ctx context.Context, key string) (io.ReadSeekCloser, blob.Info, error) {
	atomic.AddInt32(&c.n, 1)
	return c.Store.Open(ctx, key)
}

func (c *counting) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	atomic.AddInt32(&c.n, 1)
	return c.Store.List(ctx, prefix, after, limit)
}

func (c *counting) Delete(ctx context.Context, key string) error {
	atomic.AddInt32(&c.n, 1)
	return c.Store.Delete(ctx, key)
}
