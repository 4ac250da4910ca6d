package diskguard

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/engine/disk"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
)

// living is a replica whose processes run.
type living struct {
	Ended
	launcher record.Process
}

// endOne tells the replica that holds most to end: it is sent a signal, which needs neither room nor a name.
func (g *Guard) endOne(ctx context.Context, room embedded.Room, now time.Time) {
	one, ok := guilty(g.living(ctx), room)
	if !ok {
		return
	}
	if err := one.launcher.Signal(unix.SIGUSR1); err != nil {
		g.cfg.Log.Warn("a replica that filled the disk could not be told to end", "replica", one.Replica, "error", err)
		return
	}
	g.told[one.Replica], g.last = now, now
	g.cfg.Log.Error("the disk is full: the task that holds most of it is ended", "task", one.TaskID, "replica", one.Replica, "bytes", one.Bytes, "files", one.Files)
	g.cfg.Ended(ctx, one.Ended)
}

// guilty is who holds most of what is short. It must be so much that its end helps: otherwise others have filled the disk.
func guilty(all []living, room embedded.Room) (out living, ok bool) {
	names := room.Names > 0 && room.FreeNames < leastNames && room.Free >= leastOf(room)
	least := max(2*leastOf(room), room.Total/20)
	if names {
		least = room.Names / 20
	}
	for _, one := range all {
		if names && one.Files >= max(least, out.Files+1) || !names && one.Bytes >= max(least, out.Bytes+1) {
			out, ok = one, true
		}
	}
	return out, ok
}

// living counts what each replica that runs holds, but for those that were told.
func (g *Guard) living(ctx context.Context) (out []living) {
	entries, err := os.ReadDir(g.cfg.Replicas)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		dir, name := filepath.Join(g.cfg.Replicas, e.Name()), engine.Name(e.Name())
		if _, told := g.told[name]; told || !e.IsDir() || record.Exists(dir, record.FileExit) {
			continue
		}
		one := living{Ended: Ended{Replica: name}}
		if ok, err := record.Read(dir, record.FileLauncher, &one.launcher); !ok || err != nil || !one.launcher.HearsFull || !one.launcher.Alive() {
			continue
		}
		var r engine.Replica
		if ok, err := record.Read(dir, record.FileReplica, &r); ok && err == nil {
			one.TaskID = r.TaskID
		}
		var pids []int
		if group, err := cgroup.Load(dir); err == nil && group != nil {
			pids, _ = group.Pids()
		}
		one.Bytes, one.Files, err = disk.Sum(ctx, dir, pids)
		if r.Inside == "" && api.IsName(r.Home) { // it outlives the replica, and lies beside the folder of all of them
			bytes, files, herr := disk.Sum(ctx, filepath.Join(filepath.Dir(g.cfg.Replicas), record.DirHomes, r.Home), nil)
			if err == nil {
				err = herr
			}
			one.Bytes, one.Files = one.Bytes+bytes, one.Files+files
		}
		if err == nil || one.Bytes > 0 {
			out = append(out, one)
		}
	}
	return out
}
