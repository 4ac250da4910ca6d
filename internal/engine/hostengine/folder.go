package hostengine

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/id"
)

// Names that begin so are not replicas: half-made ones, and those on their way out.
const (
	prefixNew   = ".new-"
	prefixTrash = ".trash-"
	// staleNew is after how long a half-made folder has lost its maker; making one takes milliseconds.
	staleNew = 10 * time.Minute
)

func validName(name engine.Name) bool { return cgroup.ValidName(string(name)) }

// folders are the replicas' folders on disk. Several servers may share them.
type folders struct {
	root  string
	trash chan string // to Run: delete this one
	log   *slog.Logger
}

func (f *folders) of(name engine.Name) string { return filepath.Join(f.root, string(name)) }

// make makes the folder of a replica with its first records, whole or not at all: it is built beside its place and then
// renamed, which fails when the place is taken (errNameTaken). Exactly one of several servers wins. It is durable after sync.
func (f *folders) make(r engine.Replica, ends record.Link) error {
	tmp := filepath.Join(f.root, prefixNew+string(r.Name)+"-"+id.Default.Random(8))
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return err
	}
	err := errors.Join(record.Write(tmp, record.FileReplica, r), record.Write(tmp, record.FileEndpoint, ends))
	if err == nil {
		err = renameNew(tmp, f.of(r.Name))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return nil
}

func (f *folders) sync() error { return record.SyncDir(f.root) }

// renameNew renames only onto nothing.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL || err == unix.ENOSYS {
		// A file system without that flag. Plain rename replaces only an empty folder, and a
		// replica's is never empty.
		err = unix.Rename(from, to)
	}
	if err == unix.EEXIST || err == unix.ENOTEMPTY {
		return errNameTaken
	}
	return err
}

// list is the names of all replicas on disk.
func (f *folders) list() ([]engine.Name, error) {
	entries, err := os.ReadDir(f.root)
	if err != nil {
		return nil, err
	}
	var out []engine.Name
	for _, entry := range entries {
		if name := engine.Name(entry.Name()); entry.IsDir() && validName(name) {
			out = append(out, name)
		}
	}
	return out, nil
}

// modified changes when a folder was made or removed.
func (f *folders) modified() time.Time {
	info, err := os.Stat(f.root)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// discard takes a replica's folder out of sight at once; its bytes go later.
func (f *folders) discard(r *replica) error {
	trash := filepath.Join(f.root, prefixTrash+string(r.name)+"-"+id.Default.Random(8))
	if err := os.Rename(r.dir, trash); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("discard replica folder: %w", err)
	}
	select {
	case f.trash <- trash:
	default: // the sweep of the next start deletes it
	}
	return nil
}

// sweep deletes what an earlier process left: trash, and folders that never got their name.
func (f *folders) sweep() {
	entries, err := os.ReadDir(f.root)
	if err != nil {
		f.log.Warn("replica folders could not be listed", "error", err)
		return
	}
	for _, entry := range entries {
		dir := filepath.Join(f.root, entry.Name())
		if strings.HasPrefix(entry.Name(), prefixNew) {
			info, err := entry.Info()
			// File times are the kernel's, so is the clock they are compared with.
			if err != nil || time.Since(info.ModTime()) < staleNew {
				continue
			}
		} else if !strings.HasPrefix(entry.Name(), prefixTrash) {
			continue
		}
		f.delete(dir)
	}
}

func (f *folders) delete(dir string) {
	if err := os.RemoveAll(dir); err != nil {
		f.log.Warn("replica folder could not be deleted", "folder", dir, "error", err)
	}
}
