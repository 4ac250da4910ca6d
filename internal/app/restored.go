package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/app/restore"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/store"
)

// aftermath is a part of a folder that was restored.
type aftermath part

// settle does once, before anything is judged, what the one who restored the folder wished for unfinished work.
func (p *aftermath) settle(ctx context.Context, epoch store.Epoch) error {
	n, err := restore.Read(p.cfg.Shared)
	if err != nil || n == nil || n.Work == "" {
		return err
	}
	if n.Work != restore.GoOn {
		if err := p.stopUnfinished(ctx, epoch, n); err != nil {
			return err
		}
	}
	n.Work = ""
	return n.Write(p.cfg.Shared)
}

func (p *aftermath) stopUnfinished(ctx context.Context, epoch store.Epoch, n *restore.Note) error {
	now, err := p.store.Now(ctx)
	if err != nil {
		return err
	}
	all, err := p.store.List(ctx, api.KindTrainingTask, "", now)
	if err != nil {
		return err
	}
	var list []*api.TrainingTask
	all.Ascend("", func(o api.Object) bool {
		t := o.(*api.TrainingTask)
		waits := t.Status.Phase == api.PhasePending && t.Status.Attempt == 0
		if !t.Status.Phase.Finished() && !t.Spec.Stop && (n.Work == restore.StopAll || !waits) {
			list = append(list, t)
		}
		return true
	})
	var told []history.Event
	for _, t := range list {
		next := store.Clone(t)
		next.Spec.Stop = true
		if _, err := p.store.Commit(ctx, store.Txn{Ops: []store.Op{store.Update(next)}, Fence: epoch, Urgent: true}); err != nil && fault.ReasonOf(err) != "Stale" {
			return err
		} else if err != nil {
			return p.stopUnfinished(ctx, epoch, n) // a user was faster: look again
		}
		told = append(told, history.Event{
			Time: clock.Real.Now().UTC(), Kind: api.KindTrainingTask, Project: t.Meta.Project, Name: t.Meta.Name, ID: t.Meta.ID, Type: "Normal", Reason: "StoppedByRestore",
			Message: fault.T("The folder was restored from a backup of %s, and who restored it had unfinished tasks stopped.", "数据目录由 %s 的备份恢复，恢复时选择了停止未结束的任务。", n.Taken.UTC().Format(time.RFC3339)),
		})
	}
	p.cfg.Log.Info("unfinished tasks of a restored folder are stopped", "tasks", len(list), "wish", string(n.Work))
	if len(told) > 0 {
		return p.history.AddEvents(ctx, told...)
	}
	return nil
}

// warnOfKey tells who started the server where secrets do not open with its secret.key, or are said not to.
func (p *aftermath) warnOfKey(ctx context.Context) {
	n, err := restore.Read(p.cfg.Shared)
	if err != nil {
		return // said by who leads
	}
	path := filepath.Join(p.cfg.Shared, secretKeyFile)
	if raw, err := os.ReadFile(path); err == nil && n != nil && restore.OtherKey(raw, n.SecretKeys) {
		p.cfg.Log.Warn("secret.key is not the one that sealed the secrets of the restored backup", "fingerprint", restore.Prints(raw)[0], "backup", n.SecretKeys[0])
		fmt.Fprintf(p.cfg.Out, "\n  WARNING: %s (fingerprint %s) is not the key that sealed the secrets of the restored backup (%s).\n"+
			"  Stop, put that key there (mode 0600) and start again, or set the secrets again.\n", path, restore.Prints(raw)[0], n.SecretKeys[0])
	}
	shut, err := p.shutSecrets(ctx)
	if err != nil || len(shut) == 0 {
		return
	}
	p.cfg.Log.Warn("secrets do not open with this secret.key", "secrets", len(shut), "first", shut[0])
	fmt.Fprintf(p.cfg.Out, "\n  WARNING: %d secrets do not open with %s, such as %s: tasks that use them can't start.\n"+
		"  Put the right key there and start again, or set them again: fermi secret set.\n", len(shut), path, strings.Join(shut[:min(3, len(shut))], ", "))
}

// shutSecrets are those that no key of this server opens.
func (p *aftermath) shutSecrets(ctx context.Context) (names []string, err error) {
	all, err := p.store.List(ctx, api.KindSecret, "", 0)
	if err != nil {
		return nil, err
	}
	all.Ascend("", func(o api.Object) bool {
		x := o.(*api.Secret)
		for key, sealed := range x.Spec.Sealed {
			if _, err := p.box.Open(sealed, api.SealContext(x.Meta.Project, x.Meta.Name, key)); err != nil {
				names = append(names, x.Meta.Project+"/"+x.Meta.Name)
				break
			}
		}
		return true
	})
	return names, nil
}
