package app

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
)

// A backup is a tar: manifest.json, etcd.snapshot, history.db (or history.copy, from
// PostgreSQL), then blobs/KEY for each object.
// The order is the order of taking: a task that moves from the store to history meanwhile is in
// both, never in neither; an object's bytes are never older than what speaks of them.
const (
	entryManifest = "manifest.json"
	entryEtcd     = "etcd.snapshot"
	entryHistory  = "history.db"
	entryCopy     = "history.copy"
	entryBlobs    = "blobs/"
	backupFormat  = 3 // that of the data folder: who must not open one must not restore it either
)

type manifest struct {
	Format  int       `json:"format"`
	Version string    `json:"version"`
	Taken   time.Time `json:"taken"`
}

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
	t := tar.NewWriter(w)
	note, err := json.Marshal(manifest{backupFormat, p.cfg.Version, clock.Real.Now().UTC()})
	if err != nil {
		return err
	}
	if err := addBytes(t, entryManifest, note); err != nil {
		return err
	}
	if err := errors.Join(addFile(t, entryEtcd, snapshot), addFile(t, p.cfg.Past.entry(), past)); err != nil {
		return err
	}
	if err := p.addBlobs(ctx, t); err != nil {
		return err
	}
	return t.Close()
}

func (p *part) addBlobs(ctx context.Context, t *tar.Writer) error {
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

func (p *part) addBlob(ctx context.Context, t *tar.Writer, key string) error {
	r, info, err := p.blob.Open(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return nil // deleted since it was listed
	}
	if err != nil {
		return err
	}
	defer r.Close()
	if err := t.WriteHeader(&tar.Header{Name: entryBlobs + key, Mode: 0o600, Size: info.Size, ModTime: info.Modified, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.CopyN(t, r, info.Size)
	return err
}

func toFile(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Sync(), f.Close())
}

func addBytes(t *tar.Writer, name string, content []byte) error {
	if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := t.Write(content)
	return err
}

func addFile(t *tar.Writer, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.CopyN(t, f, info.Size())
	return err
}

// Restore unpacks a backup into a folder that does not exist yet, and its history, when it comes
// from PostgreSQL, into an empty database. The folder appears whole or not at all, and last. key, when not nil, is
// what the folder's secrets were sealed with; no backup holds it.
func Restore(ctx context.Context, r io.Reader, dir string, past Past, key []byte) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(dir); err == nil {
		return fault.New(fault.Conflict, "FolderExists", fault.T("%s exists already; nothing was changed.", "%s 已存在，未做任何改动。", dir)).
			WithHint(fault.T("Restore into a new folder, then start `fermi up --data` on it.", "请恢复到新目录，再用 fermi up --data 启动。"))
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".restore-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := unpackBackup(ctx, r, tmp, past); err != nil {
		return err
	}
	d, err := embedded.OpenDataDir(filepath.Join(tmp, "data"))
	if err != nil {
		return err
	}
	if err := errors.Join(embedded.Restore(filepath.Join(tmp, entryEtcd), d.Etcd()), d.Close()); err != nil {
		return err
	}
	names := []string{entryHistory, "blobs"}
	if past.URL != "" {
		names = names[1:]
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(tmp, name), filepath.Join(tmp, "data", name)); err != nil {
			return badBackup(err)
		}
	}
	if key != nil {
		if err := writeOnce(filepath.Join(tmp, "data", secretKeyFile), key); err != nil {
			return err
		}
	}
	if past.URL != "" {
		if err := past.fill(ctx, filepath.Join(tmp, entryCopy)); err != nil {
			return err
		}
	}
	return os.Rename(filepath.Join(tmp, "data"), dir)
}

func unpackBackup(ctx context.Context, r io.Reader, tmp string, past Past) error {
	blobs, err := folder.Open(filepath.Join(tmp, "blobs"))
	if err != nil {
		return err
	}
	t := tar.NewReader(r)
	for first := true; ; first = false {
		h, err := t.Next()
		if errors.Is(err, io.EOF) && !first {
			// An encrypted one proves only at its very end that it was not cut.
			if _, err := io.Copy(io.Discard, r); err != nil {
				return badBackup(err)
			}
			return nil
		}
		if err != nil {
			return badBackup(err)
		}
		if h.Name == entryHistory || h.Name == entryCopy {
			if err := past.accept(h.Name); err != nil {
				return err
			}
		}
		if err := unpackEntry(ctx, t, h, tmp, blobs, first); err != nil {
			return err
		}
	}
}

func unpackEntry(ctx context.Context, t io.Reader, h *tar.Header, tmp string, blobs blob.Store, first bool) error {
	switch {
	case first:
		return checkManifest(t, h)
	case h.Name == entryEtcd || h.Name == entryHistory || h.Name == entryCopy:
		return toFile(filepath.Join(tmp, h.Name), func(w io.Writer) error {
			_, err := io.Copy(w, t)
			return err
		})
	case strings.HasPrefix(h.Name, entryBlobs) && h.Typeflag == tar.TypeReg:
		_, err := blobs.Put(ctx, strings.TrimPrefix(h.Name, entryBlobs), t)
		return err
	}
	return badBackup(fmt.Errorf("unexpected entry %q", h.Name))
}

func checkManifest(t io.Reader, h *tar.Header) error {
	if h.Name != entryManifest {
		return badBackup(fmt.Errorf("first entry is %q", h.Name))
	}
	var m manifest
	if err := json.NewDecoder(io.LimitReader(t, 1<<16)).Decode(&m); err != nil {
		return badBackup(err)
	}
	if m.Format > backupFormat {
		return fault.New(fault.Invalid, "NewerBackup", fault.T("This backup was made by fermi %s, which is newer.", "该备份由更新的 fermi %s 创建。", m.Version)).
			WithHint(fault.T("Restore it with that version.", "请用该版本恢复。"))
	}
	return nil
}

func badBackup(cause error) error {
	return fault.New(fault.Invalid, "BadBackup", fault.T("This is not a whole Fermi backup; nothing was changed.", "这不是完整的 Fermi 备份，未做任何改动。")).Because(cause)
}
