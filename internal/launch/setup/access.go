package setup

import (
	"errors"
	"maps"
	"os"
	"path/filepath"

	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/link/pass"
)

// What lets processes of a replica use Fermi: the file that shows whose they are, and the program itself.
const (
	dirAccess = "access" // with filePass
	filePass  = "token"
	dirTool   = "tool"  // with the program
	dirNames  = "names" // with a link to it, laid over a folder that every search path has
	ownName   = "fermi"
	// searched is such a folder. A login shell sets the search path anew, as the machine or the image has it.
	searched = "/usr/local/bin"
)

// passOf is the path of the pass of the replica in this folder.
func passOf(dir string) string { return filepath.Join(dir, dirAccess, filePass) }

// GiveAccess puts the pass and the program where the processes of a replica find them, and teaches the log to hide the pass.
func GiveAccess(token string, e *Enclosure, hide func([]string)) error {
	secret := pass.Make(string(e.Home.Replica.Name), token)
	hide([]string{secret})
	for _, name := range []string{dirAccess, dirTool, dirNames} {
		dir := filepath.Join(e.Home.Dir, name)
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(passOf(e.Home.Dir), []byte(secret), 0o400); err != nil {
		return err
	}
	if err := e.Home.Give(passOf(e.Home.Dir)); err != nil {
		return err
	}
	tool := filepath.Join(e.Home.Dir, dirTool, ownName)
	if err := os.Symlink(tool, filepath.Join(e.Home.Dir, dirNames, ownName)); err != nil {
		return err
	}
	if e.Home.Tenant.UID != 0 {
		return os.WriteFile(tool, nil, 0o755) // the program is mounted over it
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	return os.Symlink(own, tool)
}

// dropAccess takes the pass away.
func dropAccess(dir string) error { return os.RemoveAll(filepath.Join(dir, dirAccess)) }

// shown is what of the program stands where behind the wall; a program whose file was replaced can't be shown.
func shown(dir string) string {
	own, err := os.Executable()
	if err != nil || !sameFile(own, "/proc/self/exe") || !exists(filepath.Join(dir, dirTool, ownName)) {
		return ""
	}
	return own
}

// showProgram has the wall of the replica in this folder show the program, also on the search path that login shells set anew.
func showProgram(w *inside.Wall, dir string, image bool) {
	own := shown(dir)
	if own == "" {
		return
	}
	w.Files = maps.Clone(w.Files)
	if w.Files == nil {
		w.Files = map[string]string{}
	}
	w.Files[filepath.Join(dir, dirTool, ownName)] = own
	w.Extras = map[string]string{searched: filepath.Join(dir, dirNames)}
	if image {
		w.Extras = map[string]string{filepath.Join(searched, ownName): own}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return errors.Join(err, err2) == nil && os.SameFile(x, y)
}

// reaches is what the environment says of the way to Fermi.
func reaches(env *env, dir string) { env.set("FERMI_TOKEN_FILE", passOf(dir)) }
