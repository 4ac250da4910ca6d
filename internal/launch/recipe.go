package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// dirRecipe is $FERMI_RECIPE within the replica's folder.
const dirRecipe = "recipe"

// inFolders puts the folders in their place in a text of a recipe.
func inFolders(text, dir string) string {
	return strings.NewReplacer(
		recipe.DirToken, filepath.Join(dir, dirRecipe), recipe.OutputToken, filepath.Join(dir, record.DirOutput),
	).Replace(text)
}

// settled is the replica with its folders in the command, if a recipe made it.
func settled(r engine.Replica, dir string) engine.Replica {
	if r.Recipe == nil {
		return r
	}
	command := make([]string, len(r.Command))
	for i, arg := range r.Command {
		command[i] = inFolders(arg, dir)
	}
	r.Command = command
	return r
}

// writeRecipe makes the folder of the recipe's files. Their names come from the server's own tables
// and are checked all the same.
func writeRecipe(r engine.Replica, dir string) error {
	if r.Recipe == nil {
		return nil
	}
	folder := filepath.Join(dir, dirRecipe)
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, f := range r.Recipe.Files {
		if f.Name != filepath.Base(f.Name) || !filepath.IsLocal(f.Name) {
			return fmt.Errorf("recipe file %q is not a plain name", f.Name)
		}
		if err := os.WriteFile(filepath.Join(folder, f.Name), []byte(inFolders(f.Text, dir)), 0o600); err != nil {
			return err
		}
	}
	return nil
}
