package app

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/blake3"
	"golang.org/x/term"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/store"
)

// afterRestore is what becomes of training tasks that had not ended when the backup was taken.
type afterRestore string

const (
	// goOn: what waited waits on, and what ran goes on from its last checkpoint that is still there.
	goOn afterRestore = "go-on"
	// stopRunning: what ran is stopped, for it may still run elsewhere; what waited waits on.
	stopRunning afterRestore = "stop-running"
	// stopAll: all of it is stopped.
	stopAll afterRestore = "stop"
)

var afterRestores = []afterRestore{goOn, stopRunning, stopAll}

func parseAfter(text string) (afterRestore, error) {
	if a := afterRestore(text); slices.Contains(afterRestores, a) {
		return a, nil
	}
	return "", fault.New(fault.Invalid, "BadFlag", fault.T("--unfinished is %s, %s or %s, not %q.", "--unfinished 可取 %s、%s 或 %s，而非 %q。", goOn, stopRunning, stopAll, text))
}

// askAfter asks who sits at the terminal; goOn where nobody does.
func askAfter(in io.Reader, out io.Writer, lang string) (a afterRestore, asked bool) {
	if f, ok := in.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return goOn, false
	}
	fmt.Fprint(out, fault.T(`The backup may hold tasks that ran or waited when it was taken. What becomes of them at the first start?
  1  go-on: those that waited wait on, those that ran go on from their last checkpoint
  2  stop-running: those that ran are stopped (they may still run elsewhere), those that waited wait on
  3  stop: all of them are stopped
[1/2/3]: `, `备份中可能有当时正在运行或排队的任务。首次启动时如何处理？
  1  go-on：排队的继续排队，运行中的从最近的检查点继续
  2  stop-running：运行中的停止（可能仍在别处运行），排队的继续排队
  3  stop：全部停止
[1/2/3]：`).In(lang))
	line, _ := bufio.NewReader(io.LimitReader(in, 64)).ReadString('\n')
	switch strings.TrimSpace(line) {
	case "2", string(stopRunning):
		return stopRunning, true
	case "3", string(stopAll):
		return stopAll, true
	}
	return goOn, true
}

// restoreNote stands in a restored folder.
type restoreNote struct {
	// Work is what the first leader does before it judges anything; "" once that is done.
	Work  afterRestore `json:"work,omitempty"`
	Taken time.Time    `json:"taken"`
	// SecretKeys are the fingerprints of the keys that open the secrets in the backup.
	SecretKeys []string `json:"secretKeys,omitempty"`
}

const restoreFile = "restored.json"

func noteRestore(dir string, n restoreNote) error {
	raw, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return replace(filepath.Join(dir, restoreFile), append(raw, '\n'))
}

// restored reads the note; nil where the folder was not restored.
func restored(dir string) (*restoreNote, error) {
	raw, err := os.ReadFile(filepath.Join(dir, restoreFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var n restoreNote
	if err == nil {
		err = json.Unmarshal(raw, &n)
	}
	if err == nil && n.Work != "" {
		_, err = parseAfter(string(n.Work))
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "RestoreNoteDamaged", fault.T("The file %s can't be read; it says what becomes of work after a restore.", "无法读取文件 %s；其中记录恢复后任务的处理方式。", filepath.Join(dir, restoreFile))).
			WithHint(fault.T("Restore once more, or write {\"work\":\"stop\"} or {\"work\":\"go-on\"} into it.", "请重新恢复，或写入 {\"work\":\"stop\"} 或 {\"work\":\"go-on\"}。")).Because(err)
	}
	return &n, nil
}

// afterRestore does once, before anything is judged, what the one who restored the folder wished for unfinished work.
func (p *part) afterRestore(ctx context.Context, epoch store.Epoch) error {
	n, err := restored(p.cfg.Shared)
	if err != nil || n == nil || n.Work == "" {
		return err
	}
	if n.Work != goOn {
		if err := p.stopUnfinished(ctx, epoch, n); err != nil {
			return err
		}
	}
	n.Work = ""
	return noteRestore(p.cfg.Shared, *n)
}

func (p *part) stopUnfinished(ctx context.Context, epoch store.Epoch, n *restoreNote) error {
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
		if !t.Status.Phase.Finished() && !t.Spec.Stop && (n.Work == stopAll || !waits) {
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

// printOf is a fingerprint of a key: it says which one it is and nothing about it.
func printOf(key []byte) string {
	sum := blake3.Sum256(append([]byte("fermi secret.key fingerprint\x00"), key...))
	return hex.EncodeToString(sum[:8])
}

// printsOf are the fingerprints of a file of keys.
func printsOf(raw []byte) []string {
	current, older := splitKeys(raw)
	out := []string{printOf(current)}
	for _, key := range older {
		out = append(out, printOf(key))
	}
	return out
}

func (p *part) secretPrints() ([]string, error) {
	raw, err := os.ReadFile(filepath.Join(p.cfg.Shared, secretKeyFile))
	if err != nil {
		return nil, err
	}
	return printsOf(raw), nil
}

// otherKey says that a key is none of those that sealed the secrets of a backup.
func otherKey(raw []byte, sealedWith []string) bool {
	if len(sealedWith) == 0 {
		return false // nobody wrote it down
	}
	return !slices.ContainsFunc(printsOf(raw), func(one string) bool { return slices.Contains(sealedWith, one) })
}

// warnOfKey tells who started the server where secrets do not open with its secret.key, or are said not to.
func (p *part) warnOfKey(ctx context.Context) {
	n, err := restored(p.cfg.Shared)
	if err != nil {
		return // said by who leads
	}
	path := filepath.Join(p.cfg.Shared, secretKeyFile)
	if raw, err := os.ReadFile(path); err == nil && n != nil && otherKey(raw, n.SecretKeys) {
		p.cfg.Log.Warn("secret.key is not the one that sealed the secrets of the restored backup", "fingerprint", printsOf(raw)[0], "backup", n.SecretKeys[0])
		fmt.Fprintf(p.cfg.Out, "\n  WARNING: %s (fingerprint %s) is not the key that sealed the secrets of the restored backup (%s).\n"+
			"  Stop, put that key there (mode 0600) and start again, or set the secrets again.\n", path, printsOf(raw)[0], n.SecretKeys[0])
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
func (p *part) shutSecrets(ctx context.Context) (names []string, err error) {
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
