package launch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine/disk"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/setup"
)

// overDisk says that a replica holds more on disk than it may.
type overDisk struct {
	text  fault.Text
	grace time.Duration
}

// fullGrace is how long ranks have that filled the disk: others wait for what they hold.
const fullGrace = time.Second

// filled is the machine's word that its disk is full and that this replica holds most of it.
func (l *launcher) filled() {
	text := fault.T("It filled the node's disk: it kept more there than any other task, and was ended so that others can go on; ask for what it needs (resources.ephemeralDisk), or write less.",
		"其写满了节点磁盘：占用多于任何其他任务，为使其他任务继续运行而被结束；请用 resources.ephemeralDisk 申请所需空间，或减少写入。")
	if l.home.Replica.Home != "" {
		text = fault.T("It filled the node's disk: it kept more there than any other, and was ended so that others can go on; start it again and delete what is not needed, and say how much its home needs (spec.storage).",
			"其写满了节点磁盘：占用多于任何其他工作负载，为使其他任务继续运行而被结束；请重新启动后删除不需要的文件，并用 spec.storage 说明主目录所需空间。")
	}
	select {
	case l.overDisk <- overDisk{text, fullGrace}:
	default: // it was said
	}
}

// makeRoom removes what nobody wants of a replica that was ended for what it keeps on disk, and waits no longer than
// usual for what it leaves to find room.
func (l *launcher) makeRoom() {
	dirs := []string{record.DirTmp, record.DirVarTmp, record.DirHome}
	if r := l.home.Replica; r.OutputLogs == "" && r.CheckpointFolder == "" {
		dirs = append(dirs, record.DirCode)
	}
	for _, dir := range dirs {
		if err := os.RemoveAll(filepath.Join(l.home.Dir, dir)); err != nil {
			l.log.Warn("scratch files of a replica that was over its disk limit are left", "folder", dir, "error", err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.givingUp {
		l.givingUp = true
		time.AfterFunc(l.patience, func() { close(l.giveUp) })
	}
}

// diskGrace is how long ranks may go on that hold more on disk than they may: they go on writing.
const diskGrace = 5 * time.Second

// holdDisk begins to hold the replica's folder (code, outputs, temporary files, home, logs, what it writes
// over its image) to resources.ephemeralDisk. Where none was asked for, a tenant may not fill the disk that
// others write to; who owns the machine may, and nil is returned.
func (r *runner) holdDisk() *disk.Watch {
	switch limit := r.wall.Home.Replica.Resources.EphemeralDisk; {
	case limit > 0:
		return disk.New(r.wall.Home.Dir, int64(limit), r.clock, r.wall.Everybody)
	case r.wall.Home.Tenant.UID != 0:
		return disk.Loose(r.wall.Home.Dir, r.clock, r.wall.Everybody)
	}
	return nil
}

// kept is something of the replica's that outlives it.
type kept struct {
	watch *disk.Watch
	over  func(used api.Bytes) fault.Text
}

// holdKept begins to hold what outlives the replica, its home and what is written over its image, to its limit. A tenant may not fill the disk that
// others write to either; none: it has no home.
func (r *runner) holdKept() (list []kept) {
	if r.wall.Home.Replica.Inside != "" { // it is that one's
		return nil
	}
	most, task := r.wall.Home.Replica.HomeLimit, r.wall.Home.Replica.Task
	hold := func(at string, over, filled func(used api.Bytes) fault.Text) {
		switch {
		case at == "" || most == 0:
		case r.wall.Home.Tenant.UID == 0:
			list = append(list, kept{disk.New(at, int64(most), r.clock, r.wall.Everybody), over})
		default:
			w := disk.LooseKept(at, int64(most), r.clock, r.wall.Everybody)
			list = append(list, kept{w, func(used api.Bytes) fault.Text {
				if w.Limit() < int64(most) {
					return filled(api.Bytes(w.Limit()))
				}
				return over(used)
			}})
		}
	}
	hold(setup.HomeOf(r.wall.Home.Dir, r.wall.Home.Replica), func(used api.Bytes) fault.Text {
		return fault.T("Its home holds %v, more than its limit of %v; raise spec.storage and start it again, then delete what is not needed.",
			"其主目录占用 %v，超过上限 %v；请提高 spec.storage 后重新启动，再删除不需要的文件。", used, most)
	}, func(limit api.Bytes) fault.Text {
		return fault.T("Its home took four fifths of what was free on the node's disk when it began (%v); start it again and delete what is not needed; spec.storage allowed it %v.",
			"其主目录占用了启动时节点磁盘空闲空间的五分之四（%v）；请重新启动后删除不需要的文件；spec.storage 允许 %v。", limit, most)
	})
	hold(setup.LayersOf(r.wall.Home.Dir, r.wall.Home.Replica, r.wall.Home.Tenant), func(used api.Bytes) fault.Text {
		return fault.T("What was written over its image holds %v, more than its limit of %v; raise spec.storage and start it again, or throw it away: fermi env reset %s.",
			"在镜像之上写入的内容占用 %v，超过上限 %v；请提高 spec.storage 后重新启动，或用 fermi env reset %s 清除。", used, most, task)
	}, func(limit api.Bytes) fault.Text {
		return fault.T("What was written over its image took four fifths of what was free on the node's disk when it began (%v); throw it away: fermi env reset %s.",
			"在镜像之上写入的内容占用了启动时节点磁盘空闲空间的五分之四（%v）；请用 fermi env reset %s 清除。", limit, task)
	})
	return list
}

// watchKept is watchDisk of that.
func (r *runner) watchKept(ctx context.Context, k kept) {
	defer k.watch.Close()
	used, err := k.watch.Run(ctx)
	if err != nil && !errors.Is(err, disk.ErrTooDeep) {
		return
	}
	text := k.over(roundBytes(used))
	r.log.Warn("what outlives the replica is over its limit", "used", used, "limit", k.watch.Limit(), "error", err)
	r.spool.Notice("%s", text.Pack())
	select {
	case r.overDisk <- overDisk{text, diskGrace}:
	case <-ctx.Done():
	}
}

// watchDisk tells the warden when the folder holds too much, until ctx ends.
func (r *runner) watchDisk(ctx context.Context, w *disk.Watch) {
	defer w.Close()
	used, err := w.Run(ctx)
	limit := r.wall.Home.Replica.Resources.EphemeralDisk
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
	r.log.Warn("the replica is over its disk limit", "used", used, "limit", w.Limit(), "error", err)
	r.spool.Notice("%s", text.Pack())
	select {
	case r.overDisk <- overDisk{text, diskGrace}:
	case <-ctx.Done():
	}
}

// roundBytes is for people: to a mebibyte, upwards.
func roundBytes(n int64) api.Bytes { return api.Bytes((n + 1<<20 - 1) >> 20 << 20) }
