package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// folder is ours below a base; every replica's group stands in it.
const folder = "fermi"

// Support is what this machine permits.
type Support struct {
	// Version is 1 or 2; 0 when no group can be made.
	Version int
	// Root is the folder below which fermi/<name> is made; with version 1 that of the first tree.
	Root string
	// Roots has the folder of each controller. With version 2 they are all Root.
	Roots map[string]string
	// Rules says that devices can be closed to a group.
	Rules bool
	// Reason says what is not enforced and why; zero when everything is.
	Reason fault.Text
}

// wanted are the controllers we use, in the order in which a group's folders are listed. Freezer
// limits nothing, but finds the processes also where nothing else is permitted.
var wanted = []string{"memory", "cpu", "cpuacct", "pids", "devices", "freezer", systemdTree}

// systemdTree is where a service manager on version 1 finds a service's processes.
const systemdTree = "name=systemd"

var detected = sync.OnceValue(func() Support {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return none(nil)
	}
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return none(nil)
	}
	s := detect(parseHierarchies(string(mounts), string(self)))
	if s.Version > 0 {
		s.Rules = s.rules() == nil
		s.Reason = missing(s)
	}
	return s
})

// Detect says what is permitted here. It looks once for the life of the process: a machine does
// not change its mind. On version 2 it makes <root>/fermi and hands the controllers down.
func Detect() Support { return detected() }

// Limited says whether this resource ("cpu", "memory", "pids") is enforced.
func (s Support) Limited(controller string) bool { return s.Roots[controller] != "" }

// String is "cgroup-v2", "cgroup-v1" or "none", as in a node's status.
func (s Support) String() string {
	if s.Version == 0 || !s.Limited("cpu") && !s.Limited("memory") {
		return "none"
	}
	return "cgroup-v" + strconv.Itoa(s.Version)
}

func detect(all []hierarchy) Support {
	two, one := detectUnified(all), detectV1(all)
	best := two
	// A unified tree beside version 1 usually has no controllers: it loses.
	if score(one) > score(two) {
		best = one
		if two.Version == 2 {
			_ = os.Remove(filepath.Join(two.Root, folder)) // fails where somebody uses it
		}
	}
	if best.Version == 0 {
		return none(all)
	}
	return best
}

func score(s Support) int {
	n := 0
	for _, c := range []string{"memory", "cpu", "pids"} {
		if s.Limited(c) {
			n += 2
		}
	}
	if s.Version > 0 {
		n++
	}
	return n
}

func none(all []hierarchy) Support {
	if len(all) == 0 {
		return Support{Reason: fault.T(
			"No cgroup file system is mounted; CPU and memory limits are not enforced.",
			"未挂载 cgroup 文件系统，CPU 与内存限制不会强制执行。")}
	}
	if os.Geteuid() != 0 {
		return Support{Reason: fault.T(
			"This user may not create cgroups (no delegated subtree); CPU and memory limits are not enforced.",
			"当前用户无权创建 cgroup（没有委派的子树），CPU 与内存限制不会强制执行。")}
	}
	return Support{Reason: fault.T(
		"The cgroup file system is read-only here; CPU and memory limits are not enforced.",
		"此处的 cgroup 文件系统为只读，CPU 与内存限制不会强制执行。")}
}

// missing says what a version that exists does not enforce.
func missing(s Support) fault.Text {
	var names []string
	for _, c := range []string{"cpu", "memory", "pids"} {
		if !s.Limited(c) {
			names = append(names, c)
		}
	}
	if !s.Rules {
		names = append(names, "devices")
	}
	if len(names) == 0 {
		return fault.Text{}
	}
	list := strings.Join(names, ", ")
	return fault.T("The cgroup controllers %s are not available to this process; those limits are not enforced.",
		"本进程无法使用 cgroup 控制器 %s，相应的限制不会强制执行。", list)
}

// detectV1 takes every wanted tree in which we may make folders.
func detectV1(all []hierarchy) Support {
	s := Support{Roots: map[string]string{}}
	for _, c := range wanted {
		for _, h := range all {
			if h.unified || !slices.Contains(h.controllers, c) || s.Roots[c] != "" {
				continue
			}
			// The service manager's tree matters only where it holds us in a unit of its own.
			if c == systemdTree && h.own == h.mount {
				continue
			}
			if base := firstWritable(h, limitedV1); base != "" {
				s.Roots[c], s.Version = base, 1
				if s.Root == "" {
					s.Root = base
				}
			}
		}
	}
	return s
}

func detectUnified(all []hierarchy) Support {
	i := slices.IndexFunc(all, func(h hierarchy) bool { return h.unified })
	if i < 0 {
		return Support{}
	}
	base := firstWritable(all[i], limitedV2)
	if base == "" {
		return Support{}
	}
	ours := filepath.Join(base, folder)
	if err := makeFolder(ours); err != nil {
		return Support{}
	}
	s := Support{Version: 2, Root: base, Roots: map[string]string{}}
	for _, c := range []string{"memory", "cpu", "pids"} {
		if handDown(base, c) && handDown(ours, c) {
			s.Roots[c] = base
		}
	}
	return s
}

// handDown lets the children of dir use a controller.
func handDown(dir, controller string) bool {
	file := filepath.Join(dir, "cgroup.subtree_control")
	if lists(file, controller) {
		return true
	}
	if !lists(filepath.Join(dir, "cgroup.controllers"), controller) {
		return false
	}
	if writeFile(file, "+"+controller) == nil {
		return true
	}
	// A folder that has processes cannot hand down (but the root can). Where we are the only one,
	// we step aside into a leaf, as a service with a delegated subtree is expected to do.
	if pids, err := pidsOf(dir); err != nil || len(pids) != 1 || pids[0] != os.Getpid() {
		return false
	}
	leaf := filepath.Join(dir, first)
	if makeFolder(leaf) != nil || writeFile(filepath.Join(leaf, "cgroup.procs"), strconv.Itoa(os.Getpid())) != nil {
		return false
	}
	return writeFile(file, "+"+controller) == nil
}

func lists(file, word string) bool {
	data, err := readFile(file)
	return err == nil && slices.Contains(strings.Fields(data), word)
}

// firstWritable is the highest folder in which we may make groups without slipping out of a limit
// that was set on us: the lowest limited ancestor, or below it down to our own cgroup.
func firstWritable(h hierarchy, limited func(dir string) bool) string {
	dirs := h.ancestors()
	from := 0
	for i, d := range dirs {
		if i > 0 && limited(d) {
			from = i
		}
	}
	for _, d := range dirs[from:] {
		// Moving a process needs the right to write to the list of the common ancestor, which is d.
		if unix.Access(d, unix.W_OK|unix.X_OK) == nil && unix.Access(filepath.Join(d, "cgroup.procs"), unix.W_OK) == nil {
			return d
		}
	}
	return ""
}

func limitedV1(dir string) bool {
	for file, unlimited := range map[string]func(int64) bool{
		"memory.limit_in_bytes": func(v int64) bool { return v >= 1<<62 },
		"cpu.cfs_quota_us":      func(v int64) bool { return v < 0 },
	} {
		if v, err := readInt(filepath.Join(dir, file)); err == nil && !unlimited(v) {
			return true
		}
	}
	return isLimited(filepath.Join(dir, "pids.max"))
}

func limitedV2(dir string) bool {
	return isLimited(filepath.Join(dir, "memory.max")) || isLimited(filepath.Join(dir, "cpu.max")) ||
		isLimited(filepath.Join(dir, "pids.max"))
}

func isLimited(file string) bool {
	data, err := readFile(file)
	return err == nil && data != "" && !strings.HasPrefix(data, "max")
}
