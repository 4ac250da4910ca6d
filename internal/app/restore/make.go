package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/fermi-cluster/fermi/internal/app/bundle"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
)

// Restoring says how a backup becomes a folder.
type Restoring struct {
	Dir  string // must not exist yet
	Past Past
	// Key, when not nil, is what the folder's secrets were sealed with; no backup holds it.
	Key []byte
	// Work is what becomes of work that had not ended.
	Work After
}

// Make unpacks a backup into a folder that does not exist yet, and its history, when it comes
// from PostgreSQL, into an empty database. The folder appears whole or not at all, and last, when every byte was verified.
func Make(ctx context.Context, r io.Reader, how Restoring) (bundle.Summary, error) {
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
		if err := how.Past.fill(ctx, filepath.Join(tmp, bundle.Copy)); err != nil {
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
	if err := errors.Join(embedded.Restore(filepath.Join(tmp, bundle.Etcd), d.Etcd()), d.Close()); err != nil {
		return err
	}
	names := []string{bundle.History, "blobs"}
	if how.Past.URL != "" {
		names = names[1:]
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(tmp, name), filepath.Join(dir, name)); err != nil {
			return bundle.Bad(err)
		}
	}
	if how.Key != nil {
		if err := toFile(filepath.Join(dir, keyFile), func(w io.Writer) error {
			_, err := w.Write(how.Key)
			return err
		}); err != nil {
			return err
		}
	}
	return Note{Work: how.Work, Taken: sum.Taken, SecretKeys: sum.SecretKeys}.Write(dir)
}

func unpackBackup(ctx context.Context, r io.Reader, tmp string, past Past) (bundle.Summary, error) {
	blobs, err := folder.Open(filepath.Join(tmp, "blobs"))
	if err != nil {
		return bundle.Summary{}, err
	}
	return bundle.Read(r, func(bundle.Manifest) error { return nil }, func(name string, body io.Reader) error {
		switch {
		case name == bundle.History || name == bundle.Copy:
			if err := past.accept(name); err != nil {
				return err
			}
			fallthrough
		case name == bundle.Etcd:
			return toFile(filepath.Join(tmp, name), func(w io.Writer) error {
				_, err := io.Copy(w, body)
				return err
			})
		case strings.HasPrefix(name, bundle.Blobs):
			_, err := blobs.Put(ctx, strings.TrimPrefix(name, bundle.Blobs), body)
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

func toFile(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Sync(), f.Close())
}
