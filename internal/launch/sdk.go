package launch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fermi-cluster/fermi/internal/recipe"
	sdk "github.com/fermi-cluster/fermi/sdk/python"
)

// dirSDK is the Python SDK within the replica's folder.
const dirSDK = "sdk"

// giveSDK puts the SDK where Python commands find it.
func (l *launcher) giveSDK() error {
	if !recipe.Python(l.replica.Command) {
		return nil
	}
	dir := filepath.Join(l.dir, dirSDK)
	if err := errors.Join(os.RemoveAll(dir), sdk.Write(dir)); err != nil { // of a launcher before us that never said go
		return err
	}
	return l.giveNew(dir)
}

// giveNew makes a tree that we just made, in a folder that only we can change, the tenant's. No process of the tenant has seen it.
func (l *launcher) giveNew(dir string) error {
	if l.tenant.UID == 0 {
		return nil
	}
	return filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return l.giveOne(p)
	})
}
