package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/app/bundle"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
)

// A backup (package bundle) holds etcd.snapshot, history.db (or history.copy, from PostgreSQL), then blobs/KEY for each
// object.
// The order is the order of taking: a task that moves from the store to history meanwhile is in
// both, never in neither; an object's bytes are never older than what speaks of them.
const (
	entryEtcd    = "etcd.snapshot"
	entryHistory = "history.db"
	entryCopy    = "history.copy"
	entryBlobs   = "blobs/"
)

// backup writes everything to w. It needs room beside the data folder for a copy of the store and history.
func (p *part) backup(ctx context.Context, w io.Writer) error {
	tmp, err := os.MkdirTemp(p.cfg.Data, ".backup-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	snapshot, past := filepath.Join(tmp, entryEtcd), filepath.Join(tmp, p.cfg.Past.entry())
	if err := toFile(snapshot, func(f io.Writer) error { return embedded.Backup(ctx, p.client, f) }); err != nil {
		return err
	}
	if err := p.history.Backup(ctx, past); err != nil {
		return err
	}
	keys, err := p.secretPrints()
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
	return t.Add(entryBlobs+key, info.Size, info.Modified, r)
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

// Restoring says how a backup becomes a folder.
type Restoring struct {
	Dir  string // must not exist yet
	Past Past
	// Key, when not nil, is what the folder's secrets were sealed with; no backup holds it.
	Key []byte
	// Work is what becomes of work that had not ended.
	Work afterRestore
}

// Restore unpacks a backup into a folder that does not exist yet, and its history, when it comes
// from PostgreSQL, into an empty database. The folder appears whole or not at all, and last, when every byte was verified.
func Restore(ctx context.Context, r io.Reader, how Restoring) (bundle.Summary, error) {
	var none bundle.Summary
	dir, err := filepath.Abs(how.Dir)
	if err != nil {
		return none, err
	}
	if _, err := os.Lstat(dir); err == nil {
		return none, fault.New(fault.Conflict, "FolderExists", fault.T("%s exists already; nothing was changed.", "%s 已存在，未做任何改动。", dir)).
			WithHint(fault.T("Restore into a new folder, then start `fermi up --data` on it.", "请恢复到新目录，再用 fermi up --data 启动。"))
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return none, err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".restore-*")
	if err != nil {
		return none, err
	}
	defer os.RemoveAll(tmp)
	sum, err := unpackBackup(ctx, r, tmp, how.Past)
	if err != nil {
		return sum, err
	}
	if err := makeFolder(filepath.Join(tmp, "data"), tmp, sum, how); err != nil {
		return sum, err
	}
	if how.Past.URL != "" {
		if err := how.Past.fill(ctx, filepath.Join(tmp, entryCopy)); err != nil {
			return sum, err
		}
	}
	return sum, os.Rename(filepath.Join(tmp, "data"), dir)
}

// makeFolder makes a data folder of what was unpacked beside it.
func makeFolder(dir, tmp string, sum bundle.Summary, how Restoring) error {
	d, err := embedded.OpenDataDir(dir)
	if err != nil {
		return err
	}
	if err := errors.Join(embedded.Restore(filepath.Join(tmp, entryEtcd), d.Etcd()), d.Close()); err != nil {
		return err
	}
	names := []string{entryHistory, "blobs"}
	if how.Past.URL != "" {
		names = names[1:]
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(tmp, name), filepath.Join(dir, name)); err != nil {
			return bundle.Bad(err)
		}
	}
	if how.Key != nil {
		if err := writeOnce(filepath.Join(dir, secretKeyFile), how.Key); err != nil {
			return err
		}
	}
	return noteRestore(dir, restoreNote{Work: how.Work, Taken: sum.Taken, SecretKeys: sum.SecretKeys})
}

func unpackBackup(ctx context.Context, r io.Reader, tmp string, past Past) (bundle.Summary, error) {
	blobs, err := folder.Open(filepath.Join(tmp, "blobs"))
	if err != nil {
		return bundle.Summary{}, err
	}
	return bundle.Read(r, func(bundle.Manifest) error { return nil }, func(name string, body io.Reader) error {
		switch {
		case name == entryHistory || name == entryCopy:
			if err := past.accept(name); err != nil {
				return err
			}
			fallthrough
		case name == entryEtcd:
			return toFile(filepath.Join(tmp, name), func(w io.Writer) error {
				_, err := io.Copy(w, body)
				return err
			})
		case strings.HasPrefix(name, entryBlobs):
			_, err := blobs.Put(ctx, strings.TrimPrefix(name, entryBlobs), body)
			return err
		}
		return bundle.Bad(fmt.Errorf("unexpected entry %q", name))
	})
}

// verifyBackup reads a backup and keeps nothing of it.
func verifyBackup(r io.Reader) (bundle.Summary, error) {
	sum, err := bundle.Read(r, func(bundle.Manifest) error { return nil }, func(string, io.Reader) error { return nil })
	if err == nil && !sum.Sealed() {
		err = fault.New(fault.Invalid, "NotVerifiable", fault.T("This backup is of format %d, made by fermi %s: it holds no checksums. All its entries can be read; whether they are as they were written is not known.",
			"该备份为格式 %d（由 fermi %s 创建），不含校验和：各条目均可读取，但无法确认与写入时一致。", sum.Format, sum.Version))
	}
	return sum, err
}
