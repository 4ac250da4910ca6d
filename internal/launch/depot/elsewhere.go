package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// fetchers is how many files of a version that lies elsewhere are on their way at once.
const fetchers = 16

// LayFrom lays a version by reference out in a project's folder: its list is asked of conn, its bytes come from open, which gives no others than
// those that were listed. What an earlier try left is fetched again: nothing says that it is right.
func LayFrom(ctx context.Context, place string, v Version, conn io.ReadWriter, open func(context.Context, asset.File) io.ReadCloser, progress func(done, total int64)) error {
	l, _, err := begin(place, v, conn, asset.DecodeListing)
	if err != nil {
		return err
	}
	defer l.root.Close()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fetchers)
	for i := range l.list.Files {
		f := &l.list.Files[i]
		if f.Size == 0 {
			continue
		}
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			in := open(ctx, *f)
			err := l.piece(f, func(out *os.File) error {
				n, err := io.Copy(out, io.LimitReader(&counted{in, l, v.Bytes, progress}, f.Size))
				if err == nil && n != f.Size {
					err = fmt.Errorf("%s ended after %d of %d bytes", f.Path, n, f.Size)
				}
				return err
			})
			return errors.Join(err, in.Close())
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return finish(place, filepath.Join(place, prefixNew+v.Digest), v.Digest)
}

// counted tells how far all are with each piece that is read.
type counted struct {
	in    io.Reader
	l     *layout
	total int64
	told  func(done, total int64)
}

// Read is io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.told(c.l.done.Add(int64(n)), c.total)
	return n, err
}

// maxChanges is how many changed files are named.
const maxChanges = 5

// Compare refuses a folder, dir or one below it, that is not what a listing, which is asked of conn, says of it: fault Conflict, SourceChanged.
func Compare(dir, below, digest string, conn io.ReadWriter) error {
	raw, err := askList(conn, digest)
	if err != nil {
		return err
	}
	list, err := asset.DecodeListing(raw)
	if err != nil {
		return err
	}
	root, err := openBelow(dir, below)
	if errors.Is(err, fs.ErrNotExist) && below != "" {
		return fault.New(fault.Conflict, "SourceChanged", fault.T("The folder %.200q is gone.", "目录 %.200q 已不存在。", below)).WithHint(listAgain)
	}
	if err != nil {
		return err
	}
	defer root.Close()
	now, _, err := asset.Walk(root.FS())
	if err != nil {
		return err
	}
	some, n := asset.Changes(list.Files, now, maxChanges)
	if n == 0 {
		return nil
	}
	var en, zh []string
	for _, c := range some {
		t := told(c)
		en, zh = append(en, t.EN), append(zh, t.ZH)
	}
	if n > len(some) {
		more := fault.T("and %d more", "另有 %d 个", n-len(some))
		en, zh = append(en, more.EN), append(zh, more.ZH)
	}
	return fault.New(fault.Conflict, "SourceChanged", fault.Text{
		EN: "The folder is not what was listed any more: " + strings.Join(en, ", ") + ".", ZH: "目录内容已与清单不符：" + strings.Join(zh, "，") + "。",
	}).WithHint(listAgain)
}

var listAgain = fault.T("List the source again, which makes a new version: fermi data import --reference.", "请重新列出来源以生成新版本：fermi data import --reference。")

// openBelow opens a folder in one; no link leads out of that.
func openBelow(dir, below string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil || below == "" {
		return root, err
	}
	defer root.Close()
	return root.OpenRoot(below)
}

func told(c asset.Change) fault.Text {
	switch {
	case c.Was < 0:
		return fault.T("%.200s is new", "%.200s 是新文件", c.Path)
	case c.Size < 0:
		return fault.T("%.200s is gone", "%.200s 已不存在", c.Path)
	case c.Was != c.Size:
		return fault.T("%.200s has %d bytes, not %d", "%.200s 为 %d 字节，原为 %d 字节", c.Path, c.Size, c.Was)
	}
	return fault.T("%.200s was written since", "%.200s 此后被写过", c.Path)
}
