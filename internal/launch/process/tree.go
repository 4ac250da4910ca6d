package process

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Tree is every process of the replica but the launcher; what is in spare, the standby, is of no
// generation and is neither ended nor waited for with one. Three ways to find them, together: the
// cgroup; descent (we are the subreaper, so that even a process which forked twice and took a new
// session descends from us); and, where there is no cgroup, the mark in the environment.
type Tree struct {
	Self  int
	Group *cgroup.Group // nil: none
	Mark  []byte        // "FERMI_REPLICA=<name>"
	Spare []record.Process
	Own   func() []record.Process // our own processes beside the user's; nil: none
	Log   *slog.Logger
}

// ClockTick is the kernel's USER_HZ, which is 100 on every Linux that Go runs on.
const ClockTick = time.Second / 100

type member struct {
	Proc record.Process
	Stat record.Stat
}

// Members lists the living of the generation.
func (t *Tree) Members() []member {
	return slices.DeleteFunc(t.all(), func(m member) bool { return t.spared(m.Proc) })
}

func (t *Tree) spared(m record.Process) bool {
	return slices.ContainsFunc(slices.Concat(t.Spare, t.ours()), func(p record.Process) bool { return p.PID == m.PID && p.StartTicks == m.StartTicks })
}

func (t *Tree) ours() []record.Process {
	if t.Own == nil {
		return nil
	}
	return t.Own()
}

// all lists the living; zombies are the reaper's.
func (t *Tree) all() []member {
	boot, _ := record.BootID()
	stats := ReadAll()
	inside := map[int]bool{}
	for pid := range stats {
		if Descends(pid, t.Self, stats) {
			inside[pid] = true
		}
	}
	if t.Group != nil {
		pids, err := t.Group.Pids()
		if err != nil {
			t.Log.Warn("cgroup can't be listed", "error", err)
		}
		for _, pid := range pids {
			inside[pid] = true
		}
	} else {
		for pid := range stats {
			if !inside[pid] && pid != t.Self && Marked(pid, t.Mark) {
				inside[pid] = true
			}
		}
	}
	delete(inside, t.Self)
	var list []member
	for pid := range inside {
		st, ok := stats[pid]
		if !ok {
			var err error
			if st, err = record.ReadStat(pid); err != nil {
				continue // ended meanwhile
			}
		}
		if st.State != 'Z' && st.State != 'X' {
			list = append(list, member{record.Process{PID: pid, StartTicks: st.StartTicks, BootID: boot}, st})
		}
	}
	slices.SortFunc(list, func(a, b member) int { return a.Proc.PID - b.Proc.PID })
	return list
}

// ReadAll is one look at /proc.
func ReadAll() map[int]record.Stat {
	stats := map[int]record.Stat{}
	dir, err := os.Open("/proc")
	if err != nil {
		return stats
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if st, err := record.ReadStat(pid); err == nil {
			stats[pid] = st
		}
	}
	return stats
}

// Descends follows the parents, at most as many as there are: the picture may be torn.
func Descends(pid, from int, stats map[int]record.Stat) bool {
	for range len(stats) {
		st, ok := stats[pid]
		if !ok || pid == from || st.PPID <= 0 {
			return false
		}
		if st.PPID == from {
			return true
		}
		pid = st.PPID
	}
	return false
}

// Marked says whether the process was started with the mark; unreadable is no.
func Marked(pid int, mark []byte) bool {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	defer f.Close()
	env, _ := io.ReadAll(io.LimitReader(f, 4<<20))
	for part := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(part, mark) {
			return true
		}
	}
	return false
}

// Signal sends sig to all and says how many it found. Each is verified by its start time, so that
// a reused pid is never hit.
func (t *Tree) Signal(sig unix.Signal) int {
	list := t.Members()
	for _, m := range list {
		err := m.Proc.Signal(sig)
		if err == nil && sig == unix.SIGTERM {
			err = m.Proc.Signal(unix.SIGCONT) // a stopped process can't obey otherwise
		}
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Log.Warn("process can't be signalled", "pid", m.Proc.PID, "error", err)
		}
	}
	return len(list)
}

// Usage measures the living. reaped is the CPU time of those who ended.
func (t *Tree) Usage(reaped time.Duration, now time.Time) link.Usage {
	if u, ok := t.groupUsage(now); ok {
		return u
	}
	ours := t.ours()
	list := slices.DeleteFunc(t.all(), func(m member) bool {
		return slices.ContainsFunc(ours, func(p record.Process) bool { return p.PID == m.Proc.PID })
	})
	u := link.Usage{CPU: reaped, Processes: len(list), At: now}
	page := int64(os.Getpagesize())
	for _, m := range list {
		u.CPU += time.Duration(m.Stat.UserTicks+m.Stat.KernTicks) * ClockTick
		u.RSS += max(m.Stat.RSSPages, 0) * page
	}
	u.Peak = max(u.Peak, u.RSS)
	return u
}

// groupUsage is the cgroup's own account, which needs no look at every process of the machine.
func (t *Tree) groupUsage(now time.Time) (u link.Usage, ok bool) {
	if t.Group == nil {
		return u, false
	}
	cpu, rss, peak, err := t.Group.Usage()
	pids, perr := t.Group.Pids()
	if err != nil || perr != nil {
		return u, false
	}
	ours := t.ours()
	pids = slices.DeleteFunc(pids, func(pid int) bool {
		return pid == t.Self || slices.ContainsFunc(ours, func(p record.Process) bool { return p.PID == pid })
	})
	return link.Usage{CPU: cpu, RSS: rss, Peak: max(peak, rss), Processes: len(pids), At: now}, true
}

// GroupPeak is the most memory the cgroup ever had; 0 without one.
func (t *Tree) GroupPeak() int64 {
	if t.Group == nil {
		return 0
	}
	_, _, peak, err := t.Group.Usage()
	if err != nil {
		return 0
	}
	return peak
}

// Strangers says whether anyone of the generation is left whom we don't reap: in the cgroup, or, where
// there is a standby or that can't be read, by descent.
func (t *Tree) Strangers() bool {
	if len(t.Spare) > 0 {
		return len(t.Members()) > 0
	}
	if t.Group == nil {
		return false
	}
	pids, err := t.Group.Pids()
	if err != nil {
		t.Log.Warn("cgroup can't be listed", "error", err)
		return len(t.Members()) > 0
	}
	ours := t.ours()
	return slices.ContainsFunc(pids, func(pid int) bool {
		return pid != t.Self && !slices.ContainsFunc(ours, func(p record.Process) bool { return p.PID == pid })
	})
}

// Childless says that we have no children but our own processes beside the user's. Without a child there is no descendant
// either, since all orphans come to us.
func (t *Tree) Childless() bool {
	ours := t.ours()
	if len(ours) == 0 {
		return false
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return false
	}
	for _, thread := range threads {
		list, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/children")
		if err != nil {
			return len(t.Members()) == 0 // a kernel that does not tell, or a thread that ended meanwhile
		}
		for word := range strings.FieldsSeq(string(list)) {
			pid, _ := strconv.Atoi(word)
			if !slices.ContainsFunc(ours, func(p record.Process) bool { return p.PID == pid }) {
				return false
			}
		}
	}
	return true
}

// ForksRefused is how often a process was not made because of the limit on processes.
func (t *Tree) ForksRefused() int {
	n, err := t.Group.ForksRefused()
	if err != nil {
		t.Log.Warn("refused forks can't be read", "error", err)
	}
	return n
}

// OOMKills is how often the kernel killed in our cgroup for memory.
func (t *Tree) OOMKills() int {
	if t.Group == nil {
		return 0
	}
	n, err := t.Group.OOMKills()
	if err != nil {
		t.Log.Warn("out-of-memory kills can't be read", "error", err)
	}
	return n
}
