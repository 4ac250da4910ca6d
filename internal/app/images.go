package app

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/server"
)

// Image opens what a rank has of a checkpoint: in the shared store, or on the disk of a node that is this machine.
func (v *vault) Image(ctx context.Context, taskID, name, tier string, rank int) (server.RankImage, error) {
	repo, err := (*part)(v).repo(tier, taskID)
	if err != nil {
		return nil, err
	}
	if repo == nil {
		return nil, outOfReach(rank)
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
		return nil, noteDamage(ctx, repo, name, err)
	}
	return &rankImage{image, repo, name, nil}, nil
}

// onDisk looks for a rank's part on the disks of the nodes that are here; records is where the verdict goes.
func (v *vault) onDisk(ctx context.Context, taskID string, records *ckpt.Repo, m *ckpt.Manifest, rank int) (server.RankImage, error) {
	p := (*part)(v)
	nodes, err := os.ReadDir(p.nodeDisk(""))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.From(err)
	}
	for _, node := range nodes {
		disk, err := folder.Open(p.nodeDisk(node.Name()))
		if err != nil {
			return nil, err
		}
		repo, err := ckpt.New(ckpt.Config{Store: disk, Prefix: taskID, Clock: clock.Real})
		var image *ckpt.Image
		if err == nil {
			image, err = repo.Image(ctx, m, uint32(rank))
		}
		if err == nil {
			return &rankImage{image, records, m.Name(), disk}, nil
		}
		if err = errors.Join(err, disk.Close()); !fault.Is(err, fault.NotFound) {
			return nil, err
		}
	}
	return nil, outOfReach(rank)
}

func outOfReach(rank int) *fault.Error {
	return fault.New(fault.NotFound, "OutOfReach", fault.T(
		"The state of rank %d is on the disk of a node only, which this server does not reach.", "进程 %d 的状态仅存于节点磁盘，本服务器无法访问。", rank)).WithHint(fault.T(
		"Checkpoints in the shared store can be read from everywhere: fermi up --checkpoints-store, and spec.checkpoint.shared of the task.",
		"共享存储中的检查点可随处读取：fermi up --checkpoints-store，以及任务的 spec.checkpoint.shared。"))
}

// rankImage is an image, and whom to tell when it is found damaged.
type rankImage struct {
	*ckpt.Image
	repo *ckpt.Repo
	name string
	disk io.Closer // nil: none to close
}

// Send is the image's. The bytes before a damage are on their way then, and the list of checkpoints says why no more follow.
func (i *rankImage) Send(ctx context.Context, w io.Writer) error {
	return noteDamage(ctx, i.repo, i.name, i.Image.Send(ctx, w))
}

// noteDamage keeps with a checkpoint that it was found damaged.
func noteDamage(ctx context.Context, repo *ckpt.Repo, name string, err error) error {
	if !ckpt.Lost(err) {
		return err
	}
	found := fault.From(err).Message
	if kept := repo.Judge(ctx, name, ckpt.Verdict{At: clock.Real.Now().UTC(), Damage: found}); kept != nil {
		return errors.Join(kept, err)
	}
	return fault.New(fault.Conflict, "Damaged", found).Because(err)
}

func (i *rankImage) Close() error {
	if i.disk == nil {
		return nil
	}
	return i.disk.Close()
}
