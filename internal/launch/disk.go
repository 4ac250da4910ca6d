package launch

import (
	"context"
	"errors"
	"os"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine/disk"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/process"
)

// diskGrace is how long ranks may go on that hold more on disk than they may: they go on writing.
const diskGrace = 5 * time.Second

// holdDisk begins to hold the replica's folder (code, outputs, temporary files, home, logs, what it writes
// over its image) to resources.ephemeralDisk. Where none was asked for, a tenant may not fill the disk that
// others write to; who owns the machine may, and nil is returned.
func (l *launcher) holdDisk() *disk.Watch {
	switch limit := l.replica.Resources.EphemeralDisk; {
	case limit > 0:
		return disk.New(l.dir, int64(limit), l.clock, l.everybody)
	case l.tenant.UID != 0:
		return disk.Loose(l.dir, l.clock, l.everybody)
	}
	return nil
}

// everybody is the processes of the replica, the launcher too.
func (l *launcher) everybody() (pids []int) {
	if l.group != nil {
		pids, _ = l.group.Pids()
		return pids
	}
	stats := process.ReadAll()
	for pid := range stats {
		if process.Descends(pid, os.Getpid(), stats) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// watchDisk tells the warden when the folder holds too much, until ctx ends.
func (l *launcher) watchDisk(ctx context.Context, w *disk.Watch) {
	defer w.Close()
	used, err := w.Run(ctx)
	limit := l.replica.Resources.EphemeralDisk
	var text fault.Text
	switch {
	case errors.Is(err, disk.ErrTooDeep):
		text = fault.T("Its folders are nested too deeply for what it keeps on disk to be counted.", "其文件夹嵌套过深，无法统计磁盘用量。")
	case err != nil:
		return
	case limit == 0:
		text = fault.T("It keeps more than %v on the node's disk, four fifths of what was free when it began; ask for what it needs (resources.ephemeralDisk).",
			"其在节点磁盘上的数据超过 %v（启动时空闲空间的五分之四）；请用 resources.ephemeralDisk 申请所需空间。", api.Bytes(w.Limit()))
	default:
		text = fault.T("It keeps %v on the node's disk, more than its limit of %v; ask for more (resources.ephemeralDisk), or write less.",
			"其在节点磁盘上的数据为 %v，超过上限 %v；请申请更多（resources.ephemeralDisk）或减少写入。", roundBytes(used), limit)
	}
	l.log.Warn("the replica is over its disk limit", "used", used, "limit", w.Limit(), "error", err)
	l.spool.Notice("%s", text.Pack())
	select {
	case l.overDisk <- text.Pack():
	case <-ctx.Done():
	}
}

// roundBytes is for people: to a mebibyte, upwards.
func roundBytes(n int64) api.Bytes { return api.Bytes((n + 1<<20 - 1) >> 20 << 20) }
