package carry

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sync/errgroup"

	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Source gives chunks; client.Asset does.
type Source func(ctx context.Context, h asset.Hash) ([]byte, error)

// Down lays a version out in a folder, which is made. What lies there whole from an earlier try stays; other files of these names are
// overwritten, and nothing else is touched.
func Down(ctx context.Context, from Source, m *asset.Manifest, dir string, p *Progress) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fault.From(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fault.From(err)
	}
	defer root.Close()
	if err := prepare(root, m.Files); err != nil {
		return fault.New(fault.Conflict, "CantWrite", fault.T("The files can't be written to %s.", "无法写入 %s。", dir)).Because(err)
	}
	p.Total.Store(m.Size())
	starts := m.Starts()
	group, way := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	at, first := int64(0), 0
	for _, c := range m.Chunks {
		for first+1 < len(m.Files) && starts[first+1] <= at {
			first++
		}
		begin, file := at, first
		at += int64(c.Bytes)
		if way.Err() != nil {
			break
		}
		group.Go(func() error {
			if here(root, m.Files, file, begin-starts[file], c) {
				p.Done.Add(int64(c.Bytes))
				return nil
			}
			data, err := from(way, c.Hash)
			if err != nil {
				return err
			}
			if len(data) != int(c.Bytes) || asset.Sum(data) != c.Hash {
				return fault.New(fault.Unavailable, "CutShort", fault.T("What came is not what was asked for; try again.", "收到的数据与请求不符，请重试。"))
			}
			if err := spread(root, m.Files, file, begin-starts[file], data); err != nil {
				return fault.From(err)
			}
			p.Sent.Add(int64(len(data)))
			p.Done.Add(int64(len(data)))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// prepare makes folders, and files of their lengths.
func prepare(root *os.Root, files []asset.File) error {
	made := map[string]bool{".": true}
	for i := range files {
		f := &files[i]
		if !inFolder(f.Path) {
			return fs.ErrInvalid
		}
		if dir := path.Dir(f.Path); !made[dir] {
			if err := root.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			made[dir] = true
		}
		mode := fs.FileMode(0o644)
		if f.Exec {
			mode = 0o755
		}
		if info, err := root.Lstat(f.Path); err == nil && info.Mode().IsRegular() && info.Size() == f.Size {
			continue
		} else if err == nil && !info.Mode().IsRegular() { // a link would lead elsewhere
			if err := root.Remove(f.Path); err != nil {
				return err
			}
		}
		out, err := root.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE, mode)
		if err != nil {
			return err
		}
		if err := errors.Join(out.Truncate(f.Size), out.Close()); err != nil {
			return err
		}
	}
	return nil
}

// pieces visits the files that a chunk is of.
func pieces(files []asset.File, first int, offset int64, length int, each func(f *asset.File, at int64, from, to int) error) error {
	for done := 0; done < length && first < len(files); first, offset = first+1, 0 {
		n := int(min(files[first].Size-offset, int64(length-done)))
		if n == 0 {
			continue
		}
		if err := each(&files[first], offset, done, done+n); err != nil {
			return err
		}
		done += n
	}
	return nil
}

// here says that a chunk lies in the folder already.
func here(root *os.Root, files []asset.File, first int, offset int64, c asset.Chunk) bool {
	buf := asset.Buffers.Get().(*[]byte)
	defer asset.Buffers.Put(buf)
	p := (*buf)[:c.Bytes]
	err := pieces(files, first, offset, len(p), func(f *asset.File, at int64, from, to int) error {
		in, err := root.Open(f.Path)
		if err != nil {
			return err
		}
		_, err = in.ReadAt(p[from:to], at)
		return errors.Join(err, in.Close())
	})
	return err == nil && asset.Sum(p) == c.Hash
}

func spread(root *os.Root, files []asset.File, first int, offset int64, data []byte) error {
	return pieces(files, first, offset, len(data), func(f *asset.File, at int64, from, to int) error {
		out, err := root.OpenFile(f.Path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = out.WriteAt(data[from:to], at)
		return errors.Join(err, out.Close())
	})
}
