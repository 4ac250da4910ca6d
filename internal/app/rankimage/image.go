package rankimage

import (
	"context"
	"errors"
	"io"

	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// OutOfReach says that this server can't read it.
func OutOfReach(rank int) *fault.Error {
	return fault.New(fault.NotFound, "OutOfReach", fault.T(
		"The state of rank %d is on the disk of a node only, which this server does not reach.", "进程 %d 的状态仅存于节点磁盘，本服务器无法访问。", rank)).WithHint(fault.T(
		"Checkpoints in the shared store can be read from everywhere: fermi up --checkpoints-store, and spec.checkpoint.shared of the task.",
		"共享存储中的检查点可随处读取：fermi up --checkpoints-store，以及任务的 spec.checkpoint.shared。"))
}

// Image is an image, and whom to tell when it is found damaged.
type Image struct {
	*ckpt.Image
	repo *ckpt.Repo
	name string
	disk io.Closer // nil: none to close
}

// New is one; disk is closed with it, if there is one.
func New(image *ckpt.Image, repo *ckpt.Repo, name string, disk io.Closer) *Image {
	return &Image{image, repo, name, disk}
}

// Send is the image's. The bytes before a damage are on their way then, and the list of checkpoints says why no more follow.
func (i *Image) Send(ctx context.Context, w io.Writer) error {
	return NoteDamage(ctx, i.repo, i.name, i.Image.Send(ctx, w))
}

// Files are the image's, and who reads them is told of a damage as it is.
func (i *Image) Files(ctx context.Context) ([]asset.File, asset.Opener, error) {
	files, open, err := i.Image.Files(ctx)
	return files, open, NoteDamage(ctx, i.repo, i.name, err)
}

// NoteDamage keeps with a checkpoint that it was found damaged.
func NoteDamage(ctx context.Context, repo *ckpt.Repo, name string, err error) error {
	if !ckpt.Lost(err) {
		return err
	}
	found := fault.From(err).Message
	if kept := repo.Judge(ctx, name, ckpt.Verdict{At: clock.Real.Now().UTC(), Damage: found}); kept != nil {
		return errors.Join(kept, err)
	}
	return fault.New(fault.Conflict, "Damaged", found).Because(err)
}

// Close ends the use of its disk.
func (i *Image) Close() error {
	if i.disk == nil {
		return nil
	}
	return i.disk.Close()
}
