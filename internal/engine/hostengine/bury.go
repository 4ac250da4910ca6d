package hostengine

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// mark is in the environment of every process of a replica; by it they are found where there is no
// cgroup.
const mark = "FERMI_REPLICA="

// bury ends a life whose launcher was killed: it kills what is left of the tree, then writes the
// exit. The caller holds the folder's lock, so no launcher lives and none can begin.
func (k *keeper) bury(ctx context.Context, s seen) error {
	exit := engine.Exit{Code: -1, Reason: engine.ReasonLauncherLost}
	boot, err := record.BootID()
	if err != nil {
		return err
	}
	group, err := cgroup.Load(k.r.dir)
	if err != nil {
		k.e.cfg.Log.Warn("cgroup record is garbled; processes are found by their mark", "replica", k.r.name, "error", err)
	}
	if s.launcher != nil && s.launcher.BootID != boot {
		// Nothing outlives a boot.
		exit.Cause, exit.Message = engine.CauseNodeRestarted, "The machine restarted while the replica was alive."
	} else {
		exit.Cause, exit.Message = engine.CauseLauncherKilled, "The launcher was killed; what was left of the replica's processes was stopped."
		if n, err := group.OOMKills(); err == nil && n > 0 {
			exit.Cause = "memory-limit" // its own doing, not the machine's
			exit.Message = fmt.Sprintf("The launcher was killed; the kernel stopped %d processes of this replica for want of memory. "+
				"Ask for more memory.", n)
		}
		if err := killTree(ctx, k.e, k.r.name, group); err != nil {
			return err
		}
		if cpu, _, peak, err := group.Usage(); err == nil {
			exit.CPUTime, exit.PeakBytes = cpu, peak
		}
	}
	exit.At = k.e.cfg.Clock.Now().UTC()
	if s.start != nil {
		exit.Ran = s.start.Ran()
	}
	k.e.cfg.Log.Warn("launcher lost", "replica", k.r.name, "message", exit.Message)
	return record.Write(k.r.dir, record.FileExit, exit)
}

// killTree kills until no process of the replica is left. Only ctx ends it earlier: a process that
// the kernel does not let die (waiting for a disk) still holds its devices.
func killTree(ctx context.Context, e *Engine, name engine.Name, group *cgroup.Group) error {
	pause := 5 * time.Millisecond
	for round := 0; ; round++ {
		pids, err := group.Pids()
		if err != nil {
			return fmt.Errorf("list the cgroup: %w", err)
		}
		if err := group.Kill(syscall.SIGKILL); err != nil {
			return fmt.Errorf("kill the cgroup: %w", err)
		}
		marked, err := killMarked(name)
		if err != nil {
			return err
		}
		pids = append(pids, marked...)
		if len(pids) == 0 {
			return nil
		}
		if round == 10 {
			e.cfg.Log.Warn("processes of a lost replica do not die", "replica", name, "pids", pids)
		}
		awaitEnd(pids)
		if round == 0 {
			continue // usually all are gone by now
		}
		select {
		case <-e.cfg.Clock.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		pause = min(2*pause, time.Second)
	}
}

// awaitEnd waits for a moment until these have ended, and reaps those that became our children
// (which happens when we are process 1).
func awaitEnd(pids []int) {
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 200)
		reap(fd)
		_ = unix.Close(fd)
	}
}

// killMarked kills every process that carries the replica's mark and says which they were.
func killMarked(name engine.Name) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var hit []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() || !marked(pid, name) {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		// Asked again now that the pid cannot pass to another unnoticed.
		if marked(pid, name) && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil {
			hit = append(hit, pid)
		}
		_ = unix.Close(fd)
	}
	return hit, nil
}

// marked says whether a living process carries the mark. A zombie has no environment any more.
func marked(pid int, name engine.Name) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil || !bytes.Contains(env, []byte(mark)) {
		return false
	}
	return slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return string(v) == mark+string(name) })
}
