package ckpt

import (
	"bytes"
	"context"
	"io"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// objects are what a repository keeps in its folder of the store, by name. They know nothing of checkpoints.
type objects struct{ cfg Config }

func (o objects) key(name string) string { return o.cfg.Prefix + "/" + name }

// read gives a whole small object.
func (o objects) read(ctx context.Context, name string, limit int64) ([]byte, error) {
	in, info, err := o.cfg.Store.Open(ctx, o.key(name))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if info.Size > limit {
		return nil, damaged("a record is too large", "记录过大")
	}
	raw, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, fault.From(err)
	}
	if int64(len(raw)) != info.Size {
		return nil, damaged("a record is torn", "记录不完整")
	}
	return raw, nil
}

func (o objects) put(ctx context.Context, name string, raw []byte) (blob.Info, error) {
	return o.cfg.Store.Put(ctx, o.key(name), bytes.NewReader(raw))
}

func (o objects) delete(ctx context.Context, name string) error {
	return o.cfg.Store.Delete(ctx, o.key(name))
}

// object is one that list found, named within the repository.
type object struct {
	name     string
	modified time.Time
}

// list gives all objects of a folder, in the order of their names.
func (o objects) list(ctx context.Context, dir string) ([]object, error) {
	var out []object
	after := ""
	for {
		page, err := o.cfg.Store.List(ctx, o.key(dir), after, 1000)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			return out, nil
		}
		for _, info := range page {
			out = append(out, object{strings.TrimPrefix(info.Key, o.cfg.Prefix+"/"), info.Modified})
		}
		after = page[len(page)-1].Key
	}
}

// storeNow is the time by the store's own clock: ages of its objects are measured by nothing else.
func (o objects) storeNow(ctx context.Context) (time.Time, error) {
	info, err := o.put(ctx, clockKey, []byte("now"))
	return info.Modified, err
}
