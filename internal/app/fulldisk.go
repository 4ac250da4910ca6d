package app

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/app/atrest"
	"github.com/fermi-cluster/fermi/internal/app/diskguard"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/server"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
)

// guarded is the disk of the data folder under guard.
type guarded struct {
	cfg     Config
	dir     *embedded.DataDir
	disk    *diskguard.Guard
	history history.History
	work    func(ctx context.Context, id string) (api.Work, error)
}

func newGuarded(cfg Config, dir *embedded.DataDir, past history.History, work func(ctx context.Context, id string) (api.Work, error)) *guarded {
	p := &guarded{cfg: cfg, dir: dir, history: past, work: work}
	p.guardDisk()
	return p
}

// diskguardRetry is how soon what could not be written is written again.
const diskguardRetry = time.Second

// guardDisk makes the guard of the folder's disk.
func (p *guarded) guardDisk() {
	p.disk = diskguard.New(diskguard.Config{
		Data: p.cfg.Data, Replicas: filepath.Join(p.cfg.Shared, "engine", "replicas"), Ballast: p.dir.Ballast(), Clock: clock.Real,
		Log: p.cfg.Log.With("part", "disk"), Said: p.sayDisk, Ended: p.toldToEnd,
	})
}

// sayDisk tells who started the server.
func (p *guarded) sayDisk(e *fault.Error) {
	if e == nil {
		p.cfg.Log.Info("the disk has room again")
		fmt.Fprintf(p.cfg.Out, "\n  The disk of %s is well again.\n", p.cfg.Data)
		return
	}
	p.cfg.Log.Error("the disk of the data folder is in trouble", "reason", e.Reason, "error", e)
	fmt.Fprintf(p.cfg.Out, "\n  WARNING: %s\n  %s\n", e.Message.EN, e.Hint.EN)
}

// toldToEnd keeps that a replica was ended for what it holds, as soon as there is room for that.
func (p *guarded) toldToEnd(ctx context.Context, one diskguard.Ended) {
	event := history.Event{
		Time: clock.Real.Now().UTC(), ID: one.TaskID, Type: "Warning", Reason: "DiskFilled", Actor: "disk", Dedup: string(one.Replica) + "/disk-filled",
		Message: fault.T("The disk was full, and %s held most of it: %v in %d files. It is ended so that others can go on.", "磁盘已满，而 %s 占用最多：%v，共 %d 个文件。为使其他任务继续运行，现将其结束。",
			one.Replica, api.Bytes((one.Bytes+1<<20-1)>>20<<20), one.Files),
	}
	go func() {
		for pause := diskguardRetry; ctx.Err() == nil; pause = min(2*pause, 60*diskguardRetry) {
			work, err := p.work(ctx, one.TaskID)
			if err == nil {
				m := work.GetMeta()
				event.Kind, event.Project, event.Name = work.Kind(), m.Project, m.Name
				if err = p.history.AddEvents(ctx, event); err == nil {
					return
				}
			}
			if fault.Is(err, fault.NotFound) {
				return
			}
			select {
			case <-ctx.Done():
			case <-clock.Real.After(pause):
			}
		}
	}()
}

// withDisk adds to an explanation that the disk keeps things from happening.
func (p *guarded) withDisk(e server.Explanation) server.Explanation {
	if p.disk == nil {
		return e
	}
	if bad := p.disk.State(); bad != nil {
		e.Evidence = append([]fault.Text{bad.Message}, e.Evidence...)
		if e.Action.IsZero() {
			e.Action = bad.Hint
		}
	}
	return e
}

// checkRest compares the folder with what the last server left there, unless others may have gone on in it.
func checkRest(cfg Config) error {
	if cfg.Data != cfg.Shared {
		return nil
	}
	changed, err := atrest.Check(cfg.Data)
	for _, name := range changed {
		cfg.Log.Warn("a key was changed, or damaged, while no server ran", "file", filepath.Join(cfg.Data, name))
		fmt.Fprintf(cfg.Out, "\n  WARNING: %s is not the one that the last server used. If you did not change it, put the right one back.\n", filepath.Join(cfg.Data, name))
	}
	return err
}

// leaveRest writes down how the files are, now that nobody writes them; not where a part died, or was never opened.
func leaveRest(cfg Config) {
	if cfg.Data != cfg.Shared {
		return
	}
	if err := atrest.Write(cfg.Data); err != nil {
		cfg.Log.Warn("no note about the files of the folder was left", "error", err)
	}
}
