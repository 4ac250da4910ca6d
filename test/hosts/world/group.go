package world

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hierarchy is a mounted tree of control groups: the unified one, or one of a controller.
type hierarchy struct {
	Mount   string // where, on this machine and on every host
	Unified bool
	Options string // of its mount
	Base    string // the group of this world, below that of the test
}

// groups are all of them.
type groups []hierarchy

// A host's group is Base/NAME. A host sees it as the root of the tree.
func (g groups) of(name string) groups {
	out := slices.Clone(g)
	for i := range out {
		out[i].Base = filepath.Join(out[i].Base, name)
	}
	return out
}

// mountedGroups reads which trees this machine has.
func mountedGroups() (groups, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var out groups
	for line := range strings.Lines(string(data)) {
		front, back, ok := strings.Cut(line, " - ")
		place, about := strings.Fields(front), strings.Fields(back)
		if !ok || len(place) < 5 || len(about) < 3 || about[0] != "cgroup" && about[0] != "cgroup2" {
			continue
		}
		h := hierarchy{Mount: place[4], Unified: about[0] == "cgroup2"}
		for option := range strings.SplitSeq(about[2], ",") {
			switch {
			case h.Unified || option == "rw" || option == "ro" || option == "xattr" || strings.HasPrefix(option, "release_agent="):
			case strings.HasPrefix(option, "name="):
				h.Options = "none," + option
			default:
				h.Options = strings.TrimPrefix(h.Options+","+option, ",")
			}
		}
		out = append(out, h)
	}
	if len(out) == 0 {
		return nil, errors.New("no control groups are mounted")
	}
	return out, nil
}

// findGroups makes the groups of a world, below those that this process is in: what bounds it bounds its hosts.
func findGroups(mark string) (groups, error) {
	out, err := mountedGroups()
	if err != nil {
		return nil, err
	}
	own, err := ownGroups()
	if err != nil {
		return nil, err
	}
	for i := range out {
		h := &out[i]
		key := ""
		if !h.Unified {
			key = strings.TrimPrefix(h.Options, "none,")
		}
		at, ok := own[key]
		if !ok {
			return nil, fmt.Errorf("this process has no group below %s", h.Mount)
		}
		h.Base = filepath.Join(h.Mount, at, mark)
		if err := makeGroup(h.Base); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ownGroups is controllers → path; "" for the unified tree.
func ownGroups() (map[string]string, error) {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if parts := strings.SplitN(strings.TrimSpace(line), ":", 3); len(parts) == 3 {
			out[parts[1]] = parts[2]
		}
	}
	return out, nil
}

// makeGroup makes a group that processes can be in: the older cpuset begins without any.
func makeGroup(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		have, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || len(strings.TrimSpace(string(have))) > 0 {
			continue
		}
		above, err := os.ReadFile(filepath.Join(filepath.Dir(dir), name))
		if err == nil && len(strings.TrimSpace(string(above))) > 0 {
			err = os.WriteFile(filepath.Join(dir, name), above, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (g groups) make() error {
	for _, h := range g {
		if err := makeGroup(h.Base); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the groups with all below. The kernel lets go of a group a moment after its last process was reaped.
func (g groups) remove() error {
	var errs []error
	for _, h := range g {
		errs = append(errs, removeGroup(h.Base))
	}
	return errors.Join(errs...)
}

func removeGroup(dir string) error {
	var all []string
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		all = all[:0]
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		slices.Reverse(all) // what is below first
		busy := error(nil)
		for _, one := range all {
			if err := unix.Rmdir(one); err != nil && !errors.Is(err, unix.ENOENT) {
				busy = fmt.Errorf("group %s: %w", one, err)
			}
		}
		if busy == nil || time.Now().After(end) {
			return busy
		}
	}
}

// enter has this thread, and what it starts, be in a host's groups of the older trees. The unified one takes whole processes only: see Cmd.
func (g groups) enter() error {
	for _, h := range g {
		if h.Unified {
			continue
		}
		if err := os.WriteFile(filepath.Join(h.Base, "tasks"), []byte(strconv.Itoa(unix.Gettid())), 0); err != nil {
			return err
		}
	}
	return nil
}

// unified is the group of the unified tree; "" where there is none.
func (g groups) unified() string {
	for _, h := range g {
		if h.Unified {
			return h.Base
		}
	}
	return ""
}

// freezer is the file that freezes a group, with what to write, and the one that says so.
func (g groups) freezer(freeze bool) (file, order, state, said string, err error) {
	for _, h := range g {
		if h.Unified {
			order, said = "0", "frozen 0"
			if freeze {
				order, said = "1", "frozen 1"
			}
			return filepath.Join(h.Base, "cgroup.freeze"), order, filepath.Join(h.Base, "cgroup.events"), said, nil
		}
	}
	for _, h := range g {
		if slices.Contains(strings.Split(h.Options, ","), "freezer") {
			file, order = filepath.Join(h.Base, "freezer.state"), "THAWED"
			if freeze {
				order = "FROZEN"
			}
			return file, order, file, order, nil
		}
	}
	return "", "", "", "", errors.New("this kernel can't freeze control groups")
}

// freeze freezes or thaws all processes, and returns when they are.
func (g groups) freeze(freeze bool) error {
	file, order, state, said, err := g.freezer(freeze)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(order), 0); err != nil {
		return err
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		data, err := os.ReadFile(state)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(data)) {
			if strings.TrimSpace(line) == said {
				return nil
			}
		}
		if time.Now().After(end) {
			return fmt.Errorf("the group did not become %s", said)
		}
	}
}

// processes are the ids of all that are in a group or below.
func processes(dir string) (out []int) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		f, err := os.Open(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			return nil
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			if pid, err := strconv.Atoi(s.Text()); err == nil && pid > 0 {
				out = append(out, pid)
			}
		}
		return nil
	})
	return out
}

// sweepGroups kills what is in the groups that are left, and removes them.
func sweepGroups(isLeft func(string) bool) error {
	all, err := mountedGroups()
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range all {
		var left []string
		_ = filepath.WalkDir(h.Mount, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || !d.IsDir():
			case strings.HasPrefix(d.Name(), markPrefix):
				if isLeft(d.Name()) {
					left = append(left, path)
				}
				return filepath.SkipDir
			}
			return nil
		})
		for _, dir := range left {
			for _, pid := range processes(dir) {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
			thaw(dir)
			errs = append(errs, removeGroup(dir))
		}
	}
	return errors.Join(errs...)
}

// thaw lets frozen processes of a group and of those below receive their end.
func thaw(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			for name, order := range map[string]string{"cgroup.freeze": "0", "freezer.state": "THAWED"} {
				if f, err := os.OpenFile(filepath.Join(path, name), os.O_WRONLY, 0); err == nil {
					_, _ = f.WriteString(order)
					f.Close()
				}
			}
		}
		return nil
	})
}
