package hostengine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Homes are those of this machine that outlive their replicas. Launchers make them.
type Homes struct {
	Dir string // of the engine
}

// List are the owners of homes that lie here.
func (h Homes) List() (out []string) {
	entries, _ := os.ReadDir(filepath.Join(h.Dir, record.DirHomes)) // none: no home was made yet
	for _, e := range entries {
		if api.IsName(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out
}

// Drop deletes the home of an owner, and what was written over its images, of whom no replica is left. None is fine. It is set aside first, so that nobody finds a half of it.
func (h Homes) Drop(_ context.Context, id string) error {
	if !api.IsName(id) {
		return nil
	}
	err := errors.Join(drop(filepath.Join(h.Dir, record.DirHomes), id), drop(filepath.Join(h.Dir, record.DirLayers), id))
	if err != nil {
		return fault.New(fault.Unavailable, "HomeFolder", fault.T("The home of %s could not be removed.", "无法移除 %s 的主目录。", id)).Because(err)
	}
	return nil
}

func drop(dir, id string) error {
	gone := filepath.Join(dir, ".gone-"+id)
	if err := os.Rename(filepath.Join(dir, id), gone); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an earlier try the rest may be left
		return err
	}
	return os.RemoveAll(gone) // follows no link
}
