package chore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fermi-cluster/fermi/internal/launch/gitcode"
)

// Settle brings a repository into a folder of a home, whole or not at all; a folder that is there is left as it is. With Links, what begins
// with a dot in it is linked into the home, where nothing of that name is.
type Settle struct {
	Clone
	Links bool
}

// forGit are names of repositories that mean nothing in a home.
var forGit = []string{".git", ".github", ".gitlab", ".gitignore", ".gitmodules", ".gitattributes", ".gitlab-ci.yml"}

// bring says which commit it brought; "": it was there.
func (s *Settle) bring(ctx context.Context) (commit string, err error) {
	if _, err := os.Lstat(s.Dir); !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	home := filepath.Dir(s.Dir)
	fresh := filepath.Join(home, ".fermi-clone")
	if err := os.RemoveAll(fresh); err != nil { // of a try that was cut
		return "", err
	}
	if err := os.Mkdir(fresh, 0o755); err != nil {
		return "", err
	}
	if commit, err = gitcode.Clone(ctx, s.Source, fresh, s.Tmp); err != nil {
		return "", errors.Join(err, os.RemoveAll(fresh))
	}
	if err := os.Rename(fresh, s.Dir); err != nil {
		return "", errors.Join(err, os.RemoveAll(fresh))
	}
	if s.Links {
		err = s.link(home)
	}
	return commit, err
}

func (s *Settle) link(home string) error {
	list, err := os.ReadDir(s.Dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		name := e.Name()
		if !strings.HasPrefix(name, ".") || slices.Contains(forGit, name) {
			continue
		}
		if err := os.Symlink(filepath.Join(filepath.Base(s.Dir), name), filepath.Join(home, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}
