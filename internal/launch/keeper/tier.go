package keeper

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Stores opens the places that checkpoints go to; nil for those there are none of. sign proves requests to a store whose credentials are not here.
type Stores func(where record.Tiers, sign func(context.Context, *http.Request) error) (local, shared ckpt.Store, err error)

// localGrace is how long an unfinished save on the disk of a node may be silent: the disk is fast, and
// what nobody needs any more is soon deleted.
const localGrace = 30 * time.Minute

// manifests has the records of checkpoints; link.Client has. What it can never give is link.Permanent.
type manifests interface {
	FetchManifest(ctx context.Context, from link.Origin) ([]byte, error)
}

// tiers are the places that checkpoints of a task go to and come from.
type tiers struct {
	stores  func() map[string]ckpt.Store // by tier
	records manifests
	taskID  string
	clock   clock.Clock
}

// repo is the checkpoints of a task in a tier; nil where there is no such tier here.
func (t *tiers) repo(tier, taskID string) (*ckpt.Repo, error) {
	cfg := ckpt.Config{Store: t.stores()[tier], Prefix: taskID, Clock: t.clock}
	if cfg.Store == nil {
		return nil, nil
	}
	if tier == link.TierLocal {
		cfg.Grace = localGrace
	}
	return ckpt.New(cfg)
}

// openStores finds out where checkpoints may go, when that is asked for: most launchers never do. A tier that
// can't be opened is one that is not there.
func openStores(cfg Config) map[string]ckpt.Store {
	out := map[string]ckpt.Store{}
	if cfg.Stores == nil {
		return out
	}
	local, shared, err := cfg.Stores(cfg.Tiers, cfg.Sign)
	if err != nil {
		cfg.Log.Error("a place for checkpoints can't be opened", "error", err)
	}
	for tier, store := range map[string]ckpt.Store{link.TierLocal: local, link.TierShared: shared} {
		if store != nil {
			out[tier] = store
		}
	}
	return out
}

// stored is the checkpoints of a task in a tier.
type stored struct {
	tier string
	repo *ckpt.Repo
}

// nearestFirst are the tiers that may have the checkpoint. What lies on the node's disk is of use only
// with the record that the server keeps.
func (t *tiers) nearestFirst(ctx context.Context, from link.Origin) ([]stored, error) {
	var out []stored
	local, err := t.repo(link.TierLocal, from.TaskID)
	if err != nil {
		return nil, err
	}
	if local != nil {
		switch err := t.adopt(ctx, local, from); {
		case err == nil:
			out = append(out, stored{link.TierLocal, local})
		case final(err), link.Permanent(err): // it is in the shared tier alone, or another one lies here under its name
		default:
			return nil, err
		}
	}
	shared, err := t.repo(link.TierShared, from.TaskID)
	if err != nil {
		return nil, err
	}
	if shared != nil {
		out = append(out, stored{link.TierShared, shared})
	}
	return out, nil
}

// restoreNearest takes the first tier that has it whole, and says which. One where it is damaged, seen twice in the same
// place, loses it, so that no save relies on what is left.
func restoreNearest(ctx context.Context, tiers []stored, name string, t ckpt.Target) (string, error) {
	err := error(fault.New(fault.NotFound, "NoCheckpoint", fault.T("No tier here has the checkpoint.", "此处没有任何层级保存该检查点。")))
	for _, s := range tiers {
		if err = s.repo.Restore(ctx, name, t); err == nil {
			return s.tier, nil
		}
		if !final(err) || fault.Is(err, fault.Full) {
			return "", err
		}
		if ckpt.Lost(err) {
			err = errors.Join(err, s.repo.Drop(ctx, name))
		}
	}
	return "", err
}

// recorded says that the server still has the record of a checkpoint of this task, pinned or chosen to begin from;
// also where it can't be asked.
func (t *tiers) recorded(ctx context.Context, name string) bool {
	_, err := t.records.FetchManifest(ctx, link.Origin{TaskID: t.taskID, Name: name})
	return err == nil || !final(err) && !link.Permanent(err)
}

// adopt puts the record of a checkpoint into the node's own repository. Whether its parts are here, and are
// what they were, is seen when they are read.
func (t *tiers) adopt(ctx context.Context, repo *ckpt.Repo, from link.Origin) error {
	raw, err := t.records.FetchManifest(ctx, from)
	if err != nil {
		return err
	}
	m, err := ckpt.DecodeManifest(raw)
	if err != nil {
		return err
	}
	if m.Name() != from.Name {
		return fault.New(fault.Invalid, "Damaged", fault.T("The server sent the record of another checkpoint.", "服务器发送了另一个检查点的记录。"))
	}
	_, err = repo.Commit(ctx, ckpt.Proposal{
		Generation: m.Generation, Step: m.Step, World: m.World, Parts: m.Parts, Metrics: m.Metrics, Here: []uint32{},
	})
	return err
}

// final says that trying again brings the same: the bytes are damaged, or not there.
func final(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && !f.Code.Retry()
}
