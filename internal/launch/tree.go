package launch

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

// tree is every process of the replica but the launcher; what is in spare, the standby, is of no
// generation and is neither ended nor waited for with one. Three ways to find them, together: the
// cgroup; descent (we are the subreaper, so that even a process which forked twice and took a new
// session descends from us); and, where there is no cgroup, the mark in the environment.
type tree struct {
	self  int
	group *cgroup.Group // nil: none
	mark  []byte        // "FERMI_REPLICA=<name>"
	spare []record.Process
	own   func() []record.Process // our own processes beside the user's; nil: none
	log   *slog.Logger
}

// clockTick is the kernel's USER_HZ, which is 100 on every Linux that Go runs on.
const clockTick = time.Second / 100

type member struct {
	proc record.Process
	stat record.Stat
}

// members lists the living of the generation.
func (t *tree) members() []member {
	return slices.DeleteFunc(t.all(), func(m member) bool { return t.spared(m.proc) })
}

func (t *tree) spared(m record.Process) bool {
	return slices.ContainsFunc(slices.Concat(t.spare, t.ours()), func(p record.Process) bool { return p.PID == m.PID && p.StartTicks == m.StartTicks })
}

func (t *tree) ours() []record.Process {
	if t.own == nil {
		return nil
	}
	return t.own()
}

// all lists the living; zombies are the reaper's.
func (t *tree) all() []member {
	boot, _ := record.BootID()
	stats := readAll()
	inside := map[int]bool{}
	for pid := range stats {
		if descends(pid, t.self, stats) {
			inside[pid] = true
		}
	}
	if t.group != nil {
		pids, err := t.group.Pids()
		if err != nil {
			t.log.Warn("cgroup can't be listed", "error", err)
		}
		for _, pid := range pids {
			inside[pid] = true
		}
	} else {
		for pid := range stats {
			if !inside[pid] && pid != t.self && marked(pid, t.mark) {
				inside[pid] = true
			}
		}
	}
	delete(inside, t.self)
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
	slices.SortFunc(list, func(a, b member) int { return a.proc.PID - b.proc.PID })
	return list
}

// readAll is one look at /proc.
func readAll() map[int]record.Stat {
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

// descends follows the parents, at most as many as there are: the picture may be torn.
func descends(pid, from int, stats map[int]record.Stat) bool {
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

// marked says whether the process was started with the mark; unreadable is no.
func marked(pid int, mark []byte) bool {
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

// signal sends sig to all and says how many it found. Each is verified by its start time, so that
// a reused pid is never hit.
func (t *tree) signal(sig unix.Signal) int {
	list := t.members()
	for _, m := range list {
		err := m.proc.Signal(sig)
		if err == nil && sig == unix.SIGTERM {
			err = m.proc.Signal(unix.SIGCONT) // a stopped process can't obey otherwise
		}
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.log.Warn("process can't be signalled", "pid", m.proc.PID, "error", err)
		}
	}
	return len(list)
}

// usage measures the living. reaped is the CPU time of those who ended.
func (t *tree) usage(reaped time.Duration, now time.Time) link.Usage {
	if u, ok := t.groupUsage(now); ok {
		return u
	}
	ours := t.ours()
	list := slices.DeleteFunc(t.all(), func(m member) bool {
		return slices.ContainsFunc(ours, func(p record.Process) bool { return p.PID == m.proc.PID })
	})
	u := link.Usage{CPU: reaped, Processes: len(list), At: now}
	page := int64(os.Getpagesize())
	for _, m := range list {
		u.CPU += time.Duration(m.stat.UserTicks+m.stat.KernTicks) * clockTick
		u.RSS += max(m.stat.RSSPages, 0) * page
	}
	u.Peak = max(u.Peak, u.RSS)
	return u
}

// groupUsage is the cgroup's own account, which needs no look at every process of the machine.
func (t *tree) groupUsage(now time.Time) (u link.Usage, ok bool) {
	if t.group == nil {
		return u, false
	}
	cpu, rss, peak, err := t.group.Usage()
	pids, perr := t.group.Pids()
	if err != nil || perr != nil {
		return u, false
	}
	ours := t.ours()
	pids = slices.DeleteFunc(pids, func(pid int) bool {
		return pid == t.self || slices.ContainsFunc(ours, func(p record.Process) bool { return p.PID == pid })
	})
	return link.Usage{CPU: cpu, RSS: rss, Peak: max(peak, rss), Processes: len(pids), At: now}, true
}

// groupPeak is the most memory the cgroup ever had; 0 without one.
func (t *tree) groupPeak() int64 {
	if t.group == nil {
		return 0
	}
	_, _, peak, err := t.group.Usage()
	if err != nil {
		return 0
	}
	return peak
}

// strangers says whether anyone of the generation is left whom we don't reap: in the cgroup, or, where
// there is a standby or that can't be read, by descent.
func (t *tree) strangers() bool {
	if len(t.spare) > 0 {
		return len(t.members()) > 0
	}
	if t.group == nil {
		return false
	}
	pids, err := t.group.Pids()
	if err != nil {
		t.log.Warn("cgroup can't be listed", "error", err)
		return len(t.members()) > 0
	}
	ours := t.ours()
	return slices.ContainsFunc(pids, func(pid int) bool {
		return pid != t.self && !slices.ContainsFunc(ours, func(p record.Process) bool { return p.PID == pid })
	})
}

// childless says that we have no children but our own processes beside the user's. Without a child there is no descendant
// either, since all orphans come to us.
func (t *tree) childless() bool {
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
			return len(t.members()) == 0 // a kernel that does not tell, or a thread that ended meanwhile
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

// forksRefused is how often a process was not made because of the limit on processes.
func (t *tree) forksRefused() int {
	n, err := t.group.ForksRefused()
	if err != nil {
		t.log.Warn("refused forks can't be read", "error", err)
	}
	return n
}

// oomKills is how often the kernel killed in our cgroup for memory.
func (t *tree) oomKills() int {
	if t.group == nil {
		return 0
	}
	n, err := t.group.OOMKills()
	if err != nil {
		t.log.Warn("out-of-memory kills can't be read", "error", err)
	}
	return n
}
