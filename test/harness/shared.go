package harness

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// nameShared is how tasks call the folder that tests share with them.
const nameShared = "shared"

// SharedRoot is a folder of the machine that every server of these tests has a name for. It is there while something is in it.
func SharedRoot() string { return filepath.Join("/tmp", "fermi-shared-"+strconv.Itoa(os.Getpid())) }

// MakeShared makes a new folder there, which the tasks, who are somebody else, may write to.
func MakeShared() (string, error) {
	if err := os.MkdirAll(SharedRoot(), 0o755); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(SharedRoot(), "f")
	if err == nil {
		err = errors.Join(os.Chmod(SharedRoot(), 0o755), os.Chmod(dir, 0o777))
	}
	return dir, err
}

// Folder is a new folder that tasks of the default project may use as their code, by its path, and write to. Share has to be called too.
func Folder(t testing.TB) string {
	t.Helper()
	dir, err := MakeShared()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		os.RemoveAll(dir)
		os.Remove(SharedRoot()) // if nobody else has anything there
	})
	return dir
}

// Share grants the default project the folders that tests share with tasks, and further ones by their names.
func Share(ctx context.Context, cl *client.Client, names ...string) error {
	for {
		o, err := cl.Get(ctx, api.KindProject, "", api.DefaultProject)
		if err != nil {
			return err
		}
		p := o.(*api.Project)
		for _, name := range append(names, nameShared) {
			if !slices.Contains(p.Spec.Folders, name) {
				p.Spec.Folders = append(p.Spec.Folders, name)
			}
		}
		_, err = cl.Update(ctx, p, false)
		switch {
		case fault.Is(err, fault.Invalid): // an older program, which has no such names and takes any path
			return nil
		case !fault.Is(err, fault.Conflict):
			return err
		}
	}
}

// named is the setting that names the shared folder. It is a variable and no flag: older programs take no notice of it.
func named() string { return "FERMI_FOLDER=" + nameShared + "=" + SharedRoot() }
