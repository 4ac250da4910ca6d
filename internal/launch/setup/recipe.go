package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/recipe"
)

// dirRecipe is $FERMI_RECIPE within the replica's folder.
const dirRecipe = "recipe"

// fileTaskKey is what only the replicas of the attempt know, within $FERMI_RECIPE.
const fileTaskKey = "task.key"

// fill is the replica with what only a launcher knows put in its place in the texts of a recipe:
// the folders, and where the processes of this generation listen.
func fill(r engine.Replica, dir, link string, g link.Generation) (engine.Replica, error) {
	if r.Recipe == nil {
		return r, nil
	}
	if len(g.Ports) != r.Recipe.Table {
		return r, fmt.Errorf("told %d ports instead of %d", len(g.Ports), r.Recipe.Table)
	}
	host, port, _ := net.SplitHostPort(g.Lead) // link has checked it
	words := []string{
		recipe.DirToken, filepath.Join(dir, dirRecipe), recipe.OutputToken, filepath.Join(dir, record.DirOutput),
		recipe.LeadHostToken, host, recipe.LeadPortToken, port, recipe.InterfaceToken, link,
	}
	for i := range r.Recipe.Hosts {
		at := host // without a table all are reached at one address; or it is one that the table has no more
		if i < len(g.Hosts) {
			at = g.Hosts[i]
		}
		words = append(words, recipe.HostToken(i), at)
	}
	for i, port := range g.Ports {
		words = append(words, recipe.PortToken(i), strconv.Itoa(port))
	}
	known := strings.NewReplacer(words...)
	env := func(list []api.EnvVar) []api.EnvVar {
		out := make([]api.EnvVar, len(list))
		for i, v := range list {
			v.Value = known.Replace(v.Value)
			out[i] = v
		}
		return out
	}
	made := *r.Recipe
	made.Env, made.Each, made.Files = env(made.Env), nil, nil
	for _, each := range r.Recipe.Each {
		made.Each = append(made.Each, env(each))
	}
	for _, f := range r.Recipe.Files {
		f.Text = known.Replace(f.Text)
		made.Files = append(made.Files, f)
	}
	command := make([]string, len(r.Command))
	for i, arg := range r.Command {
		command[i] = known.Replace(arg)
	}
	r.Command, r.Recipe = command, &made
	return r, nil
}

// WriteRecipe puts the recipe's files into their folder, for every generation anew. The folder stays
// ours, so that no process of an earlier generation can have put a link there; the files are the
// process's. Their names come from the server's own tables and are checked all the same.
func (h *Home) WriteRecipe(r engine.Replica, key string) error {
	if r.Recipe == nil {
		return nil
	}
	folder := filepath.Join(h.Dir, dirRecipe)
	if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	files := r.Recipe.Files
	if key != "" {
		files = append(files[:len(files):len(files)], api.RecipeFile{Name: fileTaskKey, Text: key})
	}
	for _, f := range files {
		if f.Name != filepath.Base(f.Name) || !filepath.IsLocal(f.Name) {
			return fmt.Errorf("recipe file %q is not a plain name", f.Name)
		}
		file := filepath.Join(folder, f.Name)
		tmp := file + ".new"
		if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := errors.Join(os.WriteFile(tmp, []byte(f.Text), 0o600), h.Give(tmp), os.Rename(tmp, file)); err != nil {
			return err
		}
	}
	return nil
}
