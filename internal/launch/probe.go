package launch

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/link"
)

// The kinds of probes.
const (
	probeKill    = "kill"
	probeStop    = "stop"
	probeSlow    = "slow"
	probeOOM     = "oom"
	probeNode    = "node"
	probeNet     = "net"
	probeProfile = "profile"
)

const (
	oomFor   = 20 * time.Second
	nodeWait = 300 * time.Millisecond // for the answer to get out
)

// probe does what was asked and answers.
func (w *warden) probe(p link.Probe) {
	if w.r.wall.Home.Replica.Home != "" && w.r.guests.asked(p, w.r.wall.Home.Replica.Task, w.r.client) {
		return
	}
	text, refused := w.obey(p)
	w.r.client.Probed(link.Probed{ID: p.ID, Refused: refused, Text: text, At: w.r.clock.Now()})
	if p.Kind == probeNode && refused == (fault.Text{}) {
		time.AfterFunc(nodeWait, func() { _ = unix.Kill(os.Getpid(), unix.SIGKILL) })
	}
}

func (w *warden) obey(p link.Probe) (text string, refused fault.Text) {
	local := p.Rank - w.g.FirstRank
	if p.Generation != w.g.Number || local < 0 || local >= w.procs.N || w.reaper.Ends[local] != nil {
		return "", fault.T("Rank %d does not run any more.", "rank %d 已不在运行。", p.Rank)
	}
	pid := w.rankPID(local)
	proc, err := record.Describe(pid)
	if pid == 0 || err != nil {
		return "", fault.T("The process of rank %d was not found.", "找不到 rank %d 的进程。", p.Rank)
	}
	switch p.Kind {
	case probeProfile:
		w.drag.Rest()
		return w.witness.profile(local, pid), refused
	case probeKill:
		err = proc.Signal(unix.SIGKILL)
	case probeStop:
		w.drag.End() // it would let it run again
		err = proc.Signal(unix.SIGSTOP)
	case probeSlow:
		err = w.drag.Begin(proc)
	case probeOOM:
		return "", fillMemory(w.r.wall.Group, pid)
	case probeNode: // after the answer
	case probeNet:
		var cut int
		if cut, err = process.Sever(pid); err == nil && cut == 0 {
			return "", fault.T("Rank %d has no connection that could be cut.", "rank %d 没有可切断的连接。", p.Rank)
		}
	default:
		return "", fault.T("%q is no fault that this launcher knows.", "该启动器不支持故障类型 %q。", p.Kind)
	}
	if err != nil {
		return "", fault.T("It could not be done: %v", "无法执行：%v", err)
	}
	return "", refused
}

// fillMemory takes the memory of the replica's group until the kernel kills in it: the rank first, which is
// made the dearest. What takes it is of the tree, and ends with it.
func fillMemory(group *cgroup.Group, rank int) (refused fault.Text) {
	if group.MemoryLimit() == 0 {
		return fault.T("Nothing holds the replica to a memory limit of its own, so the whole machine would run out; set resources.memory, on a node that is no demo.",
			"该副本没有实际生效的内存上限，整机会耗尽内存；请设置 resources.memory，并使用非演示节点。")
	}
	tail, err := exec.LookPath("tail")
	if err == nil {
		err = os.WriteFile("/proc/"+strconv.Itoa(rank)+"/oom_score_adj", []byte("1000"), 0)
	}
	if err == nil {
		var pid int
		pid, err = syscall.ForkExec(tail, []string{"tail", "/dev/zero"}, &syscall.ProcAttr{Dir: "/", Sys: &syscall.SysProcAttr{Setsid: true}})
		if hog, derr := record.Describe(pid); err == nil && derr == nil {
			time.AfterFunc(oomFor, func() { _ = hog.Signal(unix.SIGKILL) })
		}
	}
	if err != nil {
		return fault.T("Memory could not be taken: %v", "无法占用内存：%v", err)
	}
	return refused
}

// rankPID is the process of a local rank: the one that connected, or the first of the tree with its
// number; 0: none.
func (w *warden) rankPID(local int) int {
	if pid := w.r.ranks.Progress.Connected()[local]; pid != 0 {
		return pid
	}
	if pid := w.reaper.PIDOf(local); pid != 0 {
		return pid
	}
	if w.procs.Tree == nil {
		return 0 // behind the standby's wall, and it never connected
	}
	mark := []byte("FERMI_RANK=" + strconv.Itoa(w.g.FirstRank+local))
	members := w.tree.Members()
	parents := map[int]bool{w.procs.Tree.PID: true}
	for _, m := range members {
		if w.procs.Tree.Rooted() && m.Stat.PPID == w.procs.Tree.PID { // the holder
			parents[m.Proc.PID] = true
		}
	}
	for _, m := range members {
		if parents[m.Stat.PPID] && process.Marked(m.Proc.PID, mark) {
			return m.Proc.PID
		}
	}
	return 0
}
