package app

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/fermi-cluster/fermi/internal/app/bundle"
	"github.com/fermi-cluster/fermi/internal/app/restore"
	"github.com/fermi-cluster/fermi/internal/app/rotation"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
)

// backup writes everything to w.
// The order is the order of taking: a task that moves from the store to history meanwhile is in
// both, never in neither; an object's bytes are never older than what speaks of them. It needs room beside the data folder for a copy of the store and history.
func (p *part) backup(ctx context.Context, w io.Writer) error {
	tmp, err := os.MkdirTemp(p.cfg.Data, ".backup-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	snapshot, past := filepath.Join(tmp, bundle.Etcd), filepath.Join(tmp, p.cfg.Past.Entry())
	if err := toFile(snapshot, func(f io.Writer) error { return embedded.Backup(ctx, p.client, f) }); err != nil {
		return err
	}
	if err := p.history.Backup(ctx, past); err != nil {
		return err
	}
	keys, err := restore.PrintsIn(filepath.Join(p.cfg.Shared, rotation.Secret))
	if err != nil {
		return err
	}
	t, err := bundle.NewWriter(w, bundle.Manifest{Format: bundle.Format, Version: p.cfg.Version, Taken: clock.Real.Now().UTC(), SecretKeys: keys})
	if err != nil {
		return err
	}
	for _, one := range []string{snapshot, past} {
		if err := addFile(t, filepath.Base(one), one); err != nil {
			return err
		}
	}
	if err := p.addBlobs(ctx, t); err != nil {
		return err
	}
	return t.Close()
}

func (p *part) addBlobs(ctx context.Context, t *bundle.Writer) error {
	after := ""
	for {
		page, err := p.blob.List(ctx, "", after, 1000)
		if err != nil {
			return err
		}
		for _, info := range page {
			after = info.Key
			if err := p.addBlob(ctx, t, info.Key); err != nil {
				return err
			}
		}
		if len(page) < 1000 {
			return nil
		}
	}
}

func (p *part) addBlob(ctx context.Context, t *bundle.Writer, key string) error {
	r, info, err := p.blob.Open(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return nil // deleted since it was listed
	}
	if err != nil {
		return err
	}
	defer r.Close()
	return t.Add(bundle.Blobs+key, info.Size, info.Modified, r)
}

func toFile(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Sync(), f.Close())
}

func addFile(t *bundle.Writer, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return t.Add(name, info.Size(), time.Time{}, f)
}
