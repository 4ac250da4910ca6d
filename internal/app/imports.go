package app

import (
	"context"
	"io"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

// Receive writes what a rank begins with into the shared store.
func (v *vault) Receive(ctx context.Context, taskID string, step int64, rank int, in io.Reader) (api.CheckpointPart, error) {
	repo, err := v.repo(link.TierShared, taskID)
	if err != nil {
		return api.CheckpointPart{}, err
	}
	ref, err := repo.Receive(ctx, in, uint64(step), uint32(rank))
	if err != nil {
		return api.CheckpointPart{}, err
	}
	return api.CheckpointPart{
		Rank: int(ref.Rank), Key: ref.Key, Bytes: ref.Bytes, Hash: ref.Hash.String(), Lease: ref.Lease, Size: int64(ref.Size), New: int64(ref.New),
	}, nil
}

// Commit makes a checkpoint of them. The parts come from a client: each is read again, and is in this task's folder only.
func (v *vault) Commit(ctx context.Context, taskID string, step int64, parts []api.CheckpointPart) (*api.CheckpointOrigin, error) {
	repo, err := v.repo(link.TierShared, taskID)
	if err != nil {
		return nil, err
	}
	var refs []ckpt.PartRef
	for _, p := range parts {
		ref := ckpt.PartRef{Rank: uint32(p.Rank), Key: p.Key, Bytes: p.Bytes, Lease: p.Lease, Size: uint64(p.Size), New: uint64(p.New)}
		if err := ref.Hash.UnmarshalText([]byte(p.Hash)); err != nil || p.Rank < 0 || p.Rank >= len(parts) {
			return nil, fault.New(fault.Invalid, "BadPart", fault.T("A part is not what the upload of its rank answered, or ranks are missing.", "某一部分与其上传结果不符，或缺少进程。")).Because(err)
		}
		refs = append(refs, ref)
	}
	m, err := repo.Import(ctx, uint64(step), refs)
	if err != nil {
		return nil, err
	}
	return &api.CheckpointOrigin{TaskID: taskID, Name: m.Name(), Step: step}, nil
}
