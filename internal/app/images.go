package app

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/fermi-cluster/fermi/internal/app/rankimage"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/server"
)

// Image opens what a rank has of a checkpoint: in the shared store, or on the disk of a node that is this machine.
func (v *vault) Image(ctx context.Context, taskID, name, tier string, rank int) (server.RankImage, error) {
	repo, err := v.repo(tier, taskID)
	if err != nil {
		return nil, err
	}
	if repo == nil {
		return nil, rankimage.OutOfReach(rank)
	}
	m, err := repo.Manifest(ctx, name)
	if err != nil {
		return nil, err
	}
	if tier == link.TierLocal {
		return v.onDisk(ctx, taskID, repo, m, rank)
	}
	image, err := repo.Image(ctx, m, uint32(rank))
	if err != nil {
		return nil, rankimage.NoteDamage(ctx, repo, name, err)
	}
	return rankimage.New(image, repo, name, nil), nil
}

// onDisk looks for a rank's part on the disks of the nodes that are here; records is where the verdict goes.
func (v *vault) onDisk(ctx context.Context, taskID string, records *ckpt.Repo, m *ckpt.Manifest, rank int) (server.RankImage, error) {
	nodes, err := os.ReadDir(v.nodeDisk(""))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.From(err)
	}
	for _, node := range nodes {
		disk, err := folder.Open(v.nodeDisk(node.Name()))
		if err != nil {
			return nil, err
		}
		repo, err := ckpt.New(ckpt.Config{Store: disk, Prefix: taskID, Clock: clock.Real})
		var image *ckpt.Image
		if err == nil {
			image, err = repo.Image(ctx, m, uint32(rank))
		}
		if err == nil {
			return rankimage.New(image, records, m.Name(), disk), nil
		}
		if err = errors.Join(err, disk.Close()); !fault.Is(err, fault.NotFound) {
			return nil, err
		}
	}
	return nil, rankimage.OutOfReach(rank)
}
