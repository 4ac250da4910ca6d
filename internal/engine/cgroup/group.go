package cgroup

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// File is the record in a replica's folder.
const File = "cgroup.json"

// Limits is what a group may use; zero is no limit.
type Limits struct {
	CPU    api.MilliCPU
	Memory api.Bytes
	// Pids bounds the processes and threads of the user, not the launcher's.
	Pids int
	// Devices closes all devices but the usual pseudo devices and those in Open.
	Devices bool
	Open    []Device
}

// Group is the processes of one replica. Its methods may be called by several processes at once:
// all state is the kernel's. A nil Group has no processes and can be neither used nor measured.
type Group struct {
	Paths   []string `json:"paths"`
	Version int      `json:"version"`
}

// Create makes the group, or finds the one that exists, and sets its limits.
func Create(name string, limits Limits) (*Group, error) { return Detect().Create(name, limits) }

// Create makes the group where this support says.
func (s Support) Create(name string, limits Limits) (*Group, error) {
	if !ValidName(name) {
		return nil, fault.New(fault.Invalid, "BadGroupName", fault.T("%q cannot name a cgroup.", "%q 不能用作 cgroup 名称。", name))
	}
	if s.Version == 0 {
		return nil, fault.New(fault.Unavailable, "NoCgroup", s.Reason)
	}
	g, err := s.create(name, limits)
	if err != nil {
		return nil, err
	}
	if limits.Devices && s.Rules {
		err = g.rule(limits.Open)
	}
	if err == nil && limits.Pids > 0 && s.Limited("pids") {
		err = g.makeWork(limits.Pids)
	}
	if err != nil {
		_ = g.Remove()
		return nil, notMade(name, err)
	}
	return g, nil
}

func (s Support) create(name string, limits Limits) (*Group, error) {
	g := &Group{Version: s.Version}
	for _, root := range s.folders() {
		g.Paths = append(g.Paths, filepath.Join(root, folder, name))
	}
	for _, dir := range g.Paths {
		if err := errors.Join(makeFolder(filepath.Dir(dir)), makeFolder(dir)); err != nil {
			_ = g.Remove()
			return nil, notMade(name, err)
		}
	}
	if err := s.behind(); err != nil {
		_ = g.Remove()
		return nil, notMade(name, err)
	}
	for _, set := range settings(s, limits) {
		err := writeFile(filepath.Join(set.root, folder, name, set.file), set.value)
		if err != nil && !set.optional {
			_ = g.Remove()
			return nil, notMade(name, err)
		}
	}
	return g, nil
}

func notMade(name string, err error) error {
	return fault.New(fault.Unavailable, "CgroupFailed",
		fault.T("The cgroup of %s could not be made.", "无法为 %s 创建 cgroup。", name)).Because(err)
}

// folders are the distinct roots in the order of wanted; trees mounted together count once.
func (s Support) folders() []string {
	if s.Version == 2 {
		return []string{s.Root}
	}
	var out []string
	for _, c := range wanted {
		if r := s.Roots[c]; r != "" && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// ValidName says whether name can be a group's (and a replica's) folder: ASCII letters, digits, '-', '_', '.', up to 200,
// not beginning with '.' or '-'.
func ValidName(name string) bool {
	if name == "" || len(name) > 200 || name[0] == '.' || name[0] == '-' {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	})
}

// Save writes the group's record into a replica's folder, whole or not at all.
func (g *Group) Save(dir string) error {
	data, err := json.Marshal(g)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".cgroup-*")
	if err != nil {
		return fmt.Errorf("save cgroup: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(append(data, '\n'))
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("save cgroup: %w", err)
	}
	if err := os.Rename(tmp.Name(), filepath.Join(dir, File)); err != nil {
		return fmt.Errorf("save cgroup: %w", err)
	}
	return nil
}

// Load reads the record; nil and no error when the replica has no group.
func Load(dir string) (*Group, error) {
	f, err := os.Open(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load cgroup: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err != nil {
		return nil, fmt.Errorf("load cgroup: %w", err)
	}
	return parse(data)
}

const (
	maxRecord = 64 << 10
	maxPaths  = 16
)

// guests is the folder, in a group's own, of the groups of those who run inside it. They are under its
// limits and in its measure, and neither listed nor killed with it.
const guests = "guests"

// Guest makes a group inside this one, or finds the one that exists.
func (g *Group) Guest(name string) (*Group, error) {
	if !ValidName(name) {
		return nil, fault.New(fault.Invalid, "BadGroupName", fault.T("%q cannot name a cgroup.", "%q 不能用作 cgroup 名称。", name))
	}
	in := &Group{Version: g.Version}
	for _, p := range g.Paths {
		in.Paths = append(in.Paths, filepath.Join(p, guests, name))
	}
	for _, dir := range in.Paths {
		// The host's own folder is not made: a host that has ended takes no guest.
		if err := errors.Join(makeFolder(filepath.Dir(dir)), makeFolder(dir)); err != nil {
			_ = in.Remove()
			return nil, notMade(name, err)
		}
	}
	// Its processes are not among the host's: it has the same limit for its own.
	if limit := g.ProcessLimit(); limit > 0 {
		if g.Version == 2 {
			_ = handDown(g.Paths[0], "pids")
			_ = handDown(filepath.Join(g.Paths[0], guests), "pids")
		}
		if err := in.makeWork(limit); err != nil {
			_ = in.Remove()
			return nil, notMade(name, err)
		}
	}
	return in, nil
}

// parse refuses everything that Create could not have made: what stands here is killed and removed.
func parse(data []byte) (*Group, error) {
	if len(data) > maxRecord {
		return nil, fmt.Errorf("load cgroup: more than %d bytes", maxRecord)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	g := new(Group)
	if err := dec.Decode(g); err != nil {
		return nil, fmt.Errorf("load cgroup: %w", err)
	}
	if g.Version != 1 && g.Version != 2 || len(g.Paths) == 0 || len(g.Paths) > maxPaths || g.Version == 2 && len(g.Paths) != 1 {
		return nil, fmt.Errorf("load cgroup: version %d with %d paths", g.Version, len(g.Paths))
	}
	name, host := placeOf(g.Paths[0])
	for _, p := range g.Paths {
		own, in := placeOf(p)
		if !filepath.IsAbs(p) || filepath.Clean(p) != p || own != name || in != host || !ValidName(name) || strings.ContainsRune(p, 0) {
			return nil, fmt.Errorf("load cgroup: %q is not a folder of ours", p)
		}
	}
	return g, nil
}

// placeOf takes <base>/fermi/<name>, or <base>/fermi/<host>/guests/<name>, apart; name is "" for others.
func placeOf(p string) (name, host string) {
	name, above := filepath.Base(p), filepath.Dir(p)
	if filepath.Base(above) == guests {
		above = filepath.Dir(above)
		host, above = filepath.Base(above), filepath.Dir(above)
		if !ValidName(host) {
			return "", ""
		}
	}
	if filepath.Base(above) != folder {
		return "", ""
	}
	return name, host
}

// AddPID moves a process into the group. Start is better where we start it ourselves.
func (g *Group) AddPID(pid int) error {
	var all error
	for _, p := range g.Paths {
		all = errors.Join(all, writeFile(filepath.Join(g.entry(p), "cgroup.procs"), strconv.Itoa(pid)))
	}
	return all
}

// Pids are the members, also those in groups that they made below. A group that is gone has none.
func (g *Group) Pids() ([]int, error) {
	if g == nil {
		return nil, nil
	}
	seen := map[int]bool{}
	for _, p := range g.Paths {
		dirs, err := tree(p)
		if err != nil {
			return nil, err
		}
		for _, d := range dirs {
			if d == filepath.Join(p, guests) || strings.HasPrefix(d, filepath.Join(p, guests)+"/") {
				continue
			}
			pids, err := pidsOf(d)
			if err != nil {
				return nil, err
			}
			for _, pid := range pids {
				seen[pid] = true
			}
		}
	}
	out := make([]int, 0, len(seen))
	for pid := range seen {
		out = append(out, pid)
	}
	slices.Sort(out)
	return out, nil
}

// tree is dir and every group below it, parents first; empty when dir is gone.
func tree(dir string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case gone(err):
			return nil
		case err != nil:
			return err
		case d.IsDir():
			dirs = append(dirs, p)
		}
		return nil
	})
	return dirs, err
}

func (g *Group) hasGuests() bool {
	_, err := os.Stat(filepath.Join(g.Paths[0], guests))
	return err == nil
}

// Kill sends a signal to every member. It does not wait; with SIGKILL call it until Pids is empty.
func (g *Group) Kill(sig syscall.Signal) error {
	if g == nil {
		return nil
	}
	if g.Version == 2 && sig == syscall.SIGKILL && !g.hasGuests() {
		// One write reaches also what is being forked at this moment.
		if err := writeFile(filepath.Join(g.Paths[0], "cgroup.kill"), "1"); err == nil || gone(err) {
			return nil
		}
	}
	first, err := g.Pids()
	if err != nil {
		return err
	}
	fds := make(map[int]int, len(first))
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	for _, pid := range first {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			fds[pid] = fd
		}
	}
	// A pid may have gone to a stranger between the list and the open. The second list settles it:
	// who is a member now and was opened before is the process that we hold.
	second, err := g.Pids()
	if err != nil {
		return err
	}
	var all error
	for _, pid := range second {
		if fd, ok := fds[pid]; ok {
			if err := unix.PidfdSendSignal(fd, unix.Signal(sig), nil, 0); err != nil && err != unix.ESRCH {
				all = errors.Join(all, fmt.Errorf("signal %d: %w", pid, err))
			}
		}
	}
	return all
}

// Remove deletes the group's folders. The kernel refuses for a moment after the last process
// ended, so it tries for up to two seconds; a group that still has processes stays and is an error.
func (g *Group) Remove() error {
	if g == nil {
		return nil
	}
	var all error
	deadline := time.Now().Add(2 * time.Second)
	for _, p := range g.Paths {
		wait := time.Millisecond
		for {
			err := removeTree(p)
			if err == nil {
				break
			}
			if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
				all = errors.Join(all, err)
				break
			}
			time.Sleep(wait)
			wait = min(2*wait, 100*time.Millisecond)
		}
	}
	return all
}

func removeTree(dir string) error {
	dirs, err := tree(dir)
	if err != nil {
		return err
	}
	for _, d := range slices.Backward(dirs) {
		if err := unix.Rmdir(d); err != nil && err != unix.ENOENT {
			return fmt.Errorf("remove cgroup %s: %w", d, err)
		}
	}
	return nil
}

func pidsOf(dir string) ([]int, error) {
	f, err := os.Open(filepath.Join(dir, "cgroup.procs"))
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []int
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// 0 is a process of another pid namespace: it cannot be named from here.
		if pid, err := strconv.Atoi(lines.Text()); err == nil && pid > 0 {
			out = append(out, pid)
		}
	}
	if err := lines.Err(); err != nil && !gone(err) {
		return nil, err
	}
	return out, nil
}

// gone says that the group was removed while we looked.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}
