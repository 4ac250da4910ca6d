package app

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/blob/s3"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Where checkpoints lie. Of those on the nodes' own disks the server keeps the records, in its blobs; a
// shared store has both.

// recordsPrefix is the folder of those records among the blobs.
const recordsPrefix = "checkpoints/"

// openTiers is how launchers and servers open the places that checkpoints go to.
func openTiers(t record.Tiers, sign func(context.Context, *http.Request) error) (local, shared ckpt.Store, err error) {
	if t.Local != "" {
		var f *folder.Store
		if f, err = folder.Open(t.Local); err == nil {
			local = f
		}
	}
	if t.Shared.Place != "" {
		var wide error
		shared, wide = openShared(t.Shared, sign)
		err = errors.Join(err, wide)
	}
	return local, shared, err
}

// openShared opens a store; sign is asked where its credentials are not here.
func openShared(t record.SharedTier, sign func(context.Context, *http.Request) error) (ckpt.Store, error) {
	rest, bucket := strings.CutPrefix(t.Place, "s3://")
	if !bucket {
		f, err := folder.Open(t.Place)
		if err != nil {
			return nil, err
		}
		return blob.Limit(f, t.Rate), nil
	}
	cfg := bucketOf(t, rest)
	if t.Signed {
		cfg.Credentials, cfg.Sign = nil, sign
	}
	s, err := s3.Open(cfg)
	if err != nil {
		return nil, err
	}
	return blob.Limit(s, t.Rate), nil
}

// bucketOf is the bucket of a place, of which rest comes after s3://.
func bucketOf(t record.SharedTier, rest string) s3.Config {
	name, prefix, _ := strings.Cut(rest, "/")
	return s3.Config{
		Endpoint: t.Endpoint, Region: t.Region, Bucket: name, Prefix: strings.TrimSuffix(prefix, "/"),
		Credentials: func(context.Context) (id, secret, token string, err error) { return readKeys(t.Credentials) },
	}
}

// keys is the file of credentials.
type keys struct {
	ID     string `json:"accessKeyId"`
	Secret string `json:"secretAccessKey"`
	Token  string `json:"sessionToken,omitempty"`
}

// readKeys never puts what it read into an error.
func readKeys(path string) (id, secret, token string, err error) {
	bad := func(cause error) error {
		return fault.New(fault.Unavailable, "NoCredentials", fault.T("The file with the credentials of the store can't be read.", "无法读取存储的凭据文件。")).Because(cause)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", "", "", bad(err)
	}
	defer f.Close()
	var k keys
	dec := json.NewDecoder(io.LimitReader(f, 64<<10))
	dec.DisallowUnknownFields()
	if dec.Decode(&k) != nil || k.ID == "" || k.Secret == "" {
		return "", "", "", bad(errors.New("it must be JSON with accessKeyId and secretAccessKey"))
	}
	return k.ID, k.Secret, k.Token, nil
}

// vault keeps the checkpoints of all tasks.
type vault struct {
	dir    string // the shared folder of the servers
	place  record.SharedTier
	blob   ckpt.Store
	shared func() (ckpt.Store, error) // nil, nil: there is none
	checks *checks
	log    *slog.Logger
}

func newVault(cfg Config, blobs ckpt.Store) *vault {
	return &vault{cfg.Shared, cfg.Checkpoints, blobs, sync.OnceValues(func() (ckpt.Store, error) {
		if cfg.Checkpoints.Place == "" {
			return nil, nil
		}
		return openShared(cfg.Checkpoints, nil)
	}), newChecks(), cfg.Log.With("part", "checks")}
}

// nodeDisk is the folder of a node's checkpoints on its own disk: all nodes of the host engine are here.
func (v *vault) nodeDisk(node string) string { return filepath.Join(v.dir, "checkpoints", node) }

// tiers is what a launcher on a node is told.
func (v *vault) tiers(node string) record.Tiers {
	return record.Tiers{Local: v.nodeDisk(node), Shared: v.place}
}

// repo is the checkpoints of a task in a tier.
func (v *vault) repo(tier, taskID string) (*ckpt.Repo, error) {
	if tier == link.TierLocal {
		return ckpt.New(ckpt.Config{Store: v.blob, Prefix: recordsPrefix + taskID, Clock: clock.Real})
	}
	store, err := v.shared()
	if err != nil || store == nil {
		return nil, err
	}
	return ckpt.New(ckpt.Config{Store: store, Prefix: taskID, Clock: clock.Real})
}

// manifestOf gives the record of a checkpoint on nodes' disks to the task that it belongs to.
func (v *vault) manifestOf(ctx context.Context, taskID string, from link.Origin) ([]byte, error) {
	if from.TaskID != taskID {
		return nil, fault.New(fault.Forbidden, "NotItsCheckpoint", fault.T("The checkpoint is another task's.", "该检查点属于另一个任务。"))
	}
	r, _, err := v.blob.Open(ctx, recordsPrefix+from.TaskID+"/manifests/"+from.Name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, link.MaxManifest))
}

// Erase deletes all a task has, in every tier.
func (v *vault) Erase(ctx context.Context, taskID string) error {
	errs := []error{v.blob.Delete(ctx, recordsPrefix+taskID+"/")}
	if store, err := v.shared(); err != nil {
		errs = append(errs, err)
	} else if store != nil {
		errs = append(errs, store.Delete(ctx, taskID+"/"))
	}
	nodes, err := os.ReadDir(v.nodeDisk(""))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	for _, node := range nodes {
		disk, err := folder.Open(v.nodeDisk(node.Name()))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, disk.Delete(ctx, taskID+"/"), disk.Close())
	}
	return errors.Join(errs...)
}

// List is what a task has, for people, the oldest first.
func (v *vault) List(ctx context.Context, taskID string) ([]api.Checkpoint, error) {
	var out []api.Checkpoint
	at := map[string]int{}
	open := func(tier string) (*ckpt.Repo, error) { return v.repo(tier, taskID) }
	err := ckpt.EachIn(ctx, link.Tiers, open, func(tier string, c ckpt.Checkpoint) {
		i, ok := at[c.Name]
		if !ok {
			i = len(out)
			at[c.Name] = i
			out = append(out, api.Checkpoint{Name: c.Name, Step: int64(c.Step), Generation: int64(c.Generation)})
		}
		if c.Unread == nil {
			out[i].Ranks, out[i].Size, out[i].Metrics = int(c.World), api.Bytes(c.Size), c.Metrics
		}
		one := api.CheckpointCopy{Tier: tier, CommittedAt: c.Committed.UTC(), New: api.Bytes(c.New), Pinned: c.Pinned}
		if said := c.Verdict; said.Bad() {
			one.Damage = &api.CheckpointDamage{At: said.At, Message: said.Damage}
		} else if !said.At.IsZero() {
			one.VerifiedAt = &said.At
		}
		one.Verifying = tier == link.TierShared && v.checks.has(check{taskID, c.Name})
		out[i].Tiers = append(out[i].Tiers, one)
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b api.Checkpoint) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Pin keeps a checkpoint in every tier that has it, or lets the policy decide again.
func (v *vault) Pin(ctx context.Context, taskID, name string, pinned bool) error {
	for _, tier := range link.Tiers {
		repo, err := v.repo(tier, taskID)
		if err == nil && repo != nil && pinned {
			err = repo.Pin(ctx, name)
		} else if err == nil && repo != nil {
			err = repo.Unpin(ctx, name)
		}
		if err != nil && !fault.Is(err, fault.NotFound) { // it need not be in every tier
			return err
		}
	}
	return nil
}
