package setup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/recipe"
	sdk "github.com/fermi-cluster/fermi/sdk/python"
)

// dirSDK is the Python SDK within the replica's folder.
const dirSDK = "sdk"

// dirInstant is, within it, what interpreters run first where the task asks for instant saves.
const dirInstant = "instant"

// giveSDK puts the SDK where Python commands find it.
func (h *Home) giveSDK() error {
	if !wantsSDK(h.Replica) {
		return nil
	}
	dir := filepath.Join(h.Dir, dirSDK)
	if err := errors.Join(os.RemoveAll(dir), sdk.Write(dir)); err != nil { // of a launcher before us that never said go
		return err
	}
	return h.giveNew(dir)
}

// wantsSDK says that Python may be run there: by its command, or by people.
func wantsSDK(r engine.Replica) bool { return recipe.Python(r.Command) || r.Instant || r.Home != "" }

// giveNew makes a tree that we just made, in a folder that only we can change, the tenant's. No process of the tenant has seen it.
func (h *Home) giveNew(dir string) error {
	if h.Tenant.UID == 0 {
		return nil
	}
	return filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return h.Give(p)
	})
}
