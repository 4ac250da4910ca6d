package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
)

// The user's processes stand in a folder of their own below the group's, under the limit on processes.
// The launcher stays outside it: a fork bomb that has used up the limit must not keep it from making the
// thread with which it ends the bomb. Version 1 has the folder in the tree of the pids controller alone.
// In version 2 a folder with controllers for others has no processes, so the launcher has one too.
const (
	work   = "work"
	keeper = "launcher"
)

// makeWork makes the folder of the user's processes and sets its limit.
func (g *Group) makeWork(limit int) error {
	for _, p := range g.Paths {
		if g.Version == 1 {
			if _, err := os.Stat(filepath.Join(p, "pids.max")); err != nil {
				continue
			}
		} else {
			if err := makeFolder(filepath.Join(p, keeper)); err != nil {
				return err
			}
			if !lists(filepath.Join(p, "cgroup.subtree_control"), "pids") {
				if err := writeFile(filepath.Join(p, "cgroup.subtree_control"), "+pids"); err != nil {
					return err
				}
			}
		}
		dir := filepath.Join(p, work)
		return errors.Join(makeFolder(dir), writeFile(filepath.Join(dir, "pids.max"), strconv.Itoa(limit)))
	}
	return nil
}

// workDir is the folder of the user's processes; "": they stand where the launcher does.
func (g *Group) workDir() string {
	if g == nil {
		return ""
	}
	for _, p := range g.Paths {
		if _, err := os.Stat(filepath.Join(p, work, "pids.max")); err == nil {
			return filepath.Join(p, work)
		}
	}
	return ""
}

// entry is the folder in whose list a process becomes a member of the group.
func (g *Group) entry(p string) string {
	if g.Version == 2 {
		if dir := filepath.Join(p, keeper); isFolder(dir) {
			return dir
		}
	}
	return p
}

func isFolder(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}

// Door is how a process that the launcher starts gets under the limit on processes: with version 1 the
// list of threads, into which the starting thread writes 0 before it forks; with version 2 the folder to
// clone into. A nil Door leads nowhere. The caller closes it.
func (g *Group) Door() (*os.File, error) {
	dir := g.workDir()
	switch {
	case dir == "":
		return nil, nil
	case g.Version == 2:
		return os.Open(dir)
	}
	return os.OpenFile(filepath.Join(dir, "tasks"), os.O_WRONLY, 0)
}

// Work puts a process that runs already under the limit on processes.
func (g *Group) Work(pid int) error {
	dir := g.workDir()
	if dir == "" {
		return nil
	}
	return writeFile(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid))
}

// ProcessLimit is how many processes and threads the user may have; 0: no limit, or it is not known.
func (g *Group) ProcessLimit() int {
	dir := g.workDir()
	if dir == "" {
		return 0
	}
	return limitsOf(dir, g.Version == 2).Pids
}

// ForksRefused is how often a process was not made because of the limit on processes.
func (g *Group) ForksRefused() (int, error) {
	dir := g.workDir()
	if dir == "" {
		return 0, nil
	}
	n, err := readKey(filepath.Join(dir, "pids.events"), "max")
	if gone(err) { // before Linux 4.8
		return 0, nil
	}
	return int(n), err
}
