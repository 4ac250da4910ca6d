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

// Drop deletes the home of an owner, of whom no replica is left. None is fine. It is set aside first, so that nobody finds a half of it.
func (h Homes) Drop(_ context.Context, id string) error {
	if !api.IsName(id) {
		return nil
	}
	at := filepath.Join(h.Dir, record.DirHomes, id)
	gone := filepath.Join(h.Dir, record.DirHomes, ".gone-"+id)
	err := os.Rename(at, gone)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // of an earlier try the rest may be left
	}
	if err == nil {
		err = os.RemoveAll(gone) // follows no link
	}
	if err != nil {
		return fault.New(fault.Unavailable, "HomeFolder", fault.T("The home of %s could not be removed.", "无法移除 %s 的主目录。", id)).Because(err)
	}
	return nil
}
