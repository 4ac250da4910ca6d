package hostengine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
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

func (e *Engine) folder(name engine.Name) string { return filepath.Join(e.root, string(name)) }

// create makes the folder of a replica, whole or not at all: it is built beside its place and then
// renamed, which fails when the place is taken (errNameTaken). Exactly one of several servers wins.
func (e *Engine) create(r engine.Replica) error {
	tmp := filepath.Join(e.root, prefixNew+string(r.Name)+"-"+id.Default.Random(8))
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return err
	}
	lease, err := e.lease(r)
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	ends := record.Link{Endpoints: e.cfg.Endpoints, Epochs: filepath.Join(e.cfg.Dir, record.DirEpochs), Tenant: e.tenant(r), Images: filepath.Join(e.cfg.Dir, record.DirImages), Network: lease, ImageUID: e.cfg.Images.UID, Folders: e.granted(r), Assets: filepath.Join(e.cfg.Dir, record.DirAssets)}
	if e.cfg.Images.Most != nil && r.Image != "" {
		ends.ImageMost = e.cfg.Images.Most(r.Project)
	}
	if r.HostNetwork {
		ends.Address = e.cfg.Advertise
	}
	if e.cfg.Tiers != nil {
		ends.Tiers = e.cfg.Tiers(r.Node)
	}
	err = errors.Join(record.Write(tmp, record.FileReplica, r), record.Write(tmp, record.FileEndpoint, ends))
	if err == nil {
		err = renameNew(tmp, e.folder(r.Name))
	}
	if err != nil {
		e.release(r.Name, lease)
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return record.SyncDir(e.root)
}

// granted are the folders of this machine that the replica may use. On a machine of one owner that is all of them.
func (e *Engine) granted(r engine.Replica) []api.NamedFolder {
	if e.cfg.Owner != "" {
		return e.cfg.Folders
	}
	return api.Granted(e.cfg.Folders, r.Folders)
}

// tenant says who the process will be.
func (e *Engine) tenant(r engine.Replica) record.Tenant {
	t := record.Tenant{UID: r.UID, Refused: e.cfg.Owner != "" && r.Owner != e.cfg.Owner}
	if r.UID != 0 {
		t.Hide = e.cfg.Hide
	}
	if r.UID != 0 && (r.Image != "" && r.Home != "" && r.Inside == "" || r.Images == engine.ImageBuild) && e.cfg.Images.IDs != nil {
		t.IDs = e.cfg.Images.IDs(r.UID)
	}
	return t
}

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
func (e *Engine) list() ([]engine.Name, error) {
	entries, err := os.ReadDir(e.root)
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
func (e *Engine) modified() time.Time {
	info, err := os.Stat(e.root)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// discard takes a replica's folder out of sight at once; its bytes go later.
func (e *Engine) discard(r *replica) error {
	trash := filepath.Join(e.root, prefixTrash+string(r.name)+"-"+id.Default.Random(8))
	if err := os.Rename(r.dir, trash); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("discard replica folder: %w", err)
	}
	select {
	case e.trash <- trash:
	default: // the sweep of the next start deletes it
	}
	return nil
}

// sweep deletes what an earlier process left: trash, and folders that never got their name.
func (e *Engine) sweep() {
	entries, err := os.ReadDir(e.root)
	if err != nil {
		e.cfg.Log.Warn("replica folders could not be listed", "error", err)
		return
	}
	for _, entry := range entries {
		dir := filepath.Join(e.root, entry.Name())
		if strings.HasPrefix(entry.Name(), prefixNew) {
			info, err := entry.Info()
			// File times are the kernel's, so is the clock they are compared with.
			if err != nil || time.Since(info.ModTime()) < staleNew {
				continue
			}
		} else if !strings.HasPrefix(entry.Name(), prefixTrash) {
			continue
		}
		e.deleteFolder(dir)
	}
}

func (e *Engine) deleteFolder(dir string) {
	if err := os.RemoveAll(dir); err != nil {
		e.cfg.Log.Warn("replica folder could not be deleted", "folder", dir, "error", err)
	}
}
