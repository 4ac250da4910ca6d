package ship

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/fermi-cluster/fermi/internal/cli/call"
	"github.com/fermi-cluster/fermi/internal/cli/pack"
	"github.com/fermi-cluster/fermi/internal/cli/show"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Ship packs a folder into a nameless temporary file and uploads it unless the server has it. A folder that is as it was
// when it was packed before is not packed again.
func Ship(ctx context.Context, s *call.Session, dir string) (pack.Packed, error) {
	if p, ok := pack.Unchanged(ctx, dir); ok {
		if has, err := s.Client.HasArchive(ctx, p.Digest); err != nil || has {
			leftOut(s, p)
			return p, err
		}
	}
	f, err := os.CreateTemp("", "fermi-code-*")
	if err != nil {
		return pack.Packed{}, fault.From(err)
	}
	defer f.Close()
	// Without a name it goes away with this process, however that ends.
	if err := os.Remove(f.Name()); err != nil {
		return pack.Packed{}, fault.From(err)
	}
	began := time.Now()
	bar := s.Progress(s.T("packing", "打包"), -1)
	p, err := pack.Folder(ctx, dir, f, bar.Add)
	bar.Done()
	if err != nil {
		return p, err
	}
	p.Remember(dir, began, call.ReplaceFile)
	leftOut(s, p)
	has, err := s.Client.HasArchive(ctx, p.Digest)
	if err != nil || has {
		return p, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return p, fault.From(err)
	}
	bar = s.Progress(s.T("uploading", "上传"), p.Size)
	defer bar.Done()
	got, err := s.Client.PutArchive(ctx, &pack.Reader{Ctx: ctx, R: f, Add: bar.Add}, p.Size)
	if err != nil {
		return p, err
	}
	if got.Digest != p.Digest {
		return p, fault.New(fault.Internal, "DigestDiffers", fault.T(
			"The server received other bytes than were sent; try again.", "服务器收到的数据与发送的不一致，请重试。")).
			Because(fmt.Errorf("sent %s, stored %s", p.Digest, got.Digest))
	}
	return p, nil
}

// leftOut tells what stays at home without being asked to.
func leftOut(s *call.Session, p pack.Packed) {
	for i, name := range p.Left {
		if i == 5 {
			s.Say("… and %d more.", "……以及另外 %d 个。", len(p.Left)-i)
			break
		}
		s.Say("Left out: %s (a link out of the folder, no file, or a server's data).", "已略过：%s（指向文件夹外的链接、非普通文件或服务器数据）。", show.Clean(name))
	}
	if len(p.Environments) > 0 {
		s.Say("Left out: %s (a virtual environment of this machine).", "已略过：%s（本机的虚拟环境）。", show.Cut(show.Clean(strings.Join(p.Environments, ", ")), 200))
	}
}
