package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/app/restore"
	"github.com/fermi-cluster/fermi/internal/app/rotation"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/seal"
	"github.com/fermi-cluster/fermi/internal/store"
)

// aftermath is what is done once in a folder that was restored.
type aftermath struct {
	cfg     Config
	store   *store.Store
	history history.History
	box     *seal.Box
}

// settle does once, before anything is judged, what the one who restored the folder wished for unfinished work.
func (p *aftermath) settle(ctx context.Context, epoch store.Epoch) error {
	return restore.Aftermath{Dir: p.cfg.Shared, Store: p.store, History: p.history, Log: p.cfg.Log, Clock: clock.Real}.Settle(ctx, epoch)
}

// warnOfKey tells who started the server where secrets do not open with its secret.key, or are said not to.
func (p *aftermath) warnOfKey(ctx context.Context) {
	n, err := restore.Read(p.cfg.Shared)
	if err != nil {
		return // said by who leads
	}
	path := filepath.Join(p.cfg.Shared, rotation.Secret)
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
