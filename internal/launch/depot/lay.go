package depot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"sort"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/api/v1/asset"
)

// runLength is how many chunks are asked for at once.
const runLength = 16

// layout is a version on its way into a folder.
type layout struct {
	root   *os.Root
	list   *asset.Manifest
	starts []int64 // of files, in the bytes of all
	chunks []int64 // of chunks, likewise
	done   atomic.Int64
}

// Lay lays a version out in a project's folder, of bytes that it asks conn for. What an earlier try left is used. progress may be called from
// several goroutines.
func Lay(ctx context.Context, place string, v Version, conn io.ReadWriter, progress func(done, total int64)) error {
	l, again, err := begin(place, v, conn, asset.Decode)
	if err != nil {
		return err
	}
	defer l.root.Close()
	there := make([]bool, len(l.list.Chunks))
	if again {
		if err := l.look(ctx, there); err != nil {
			return err
		}
	}
	if err := l.fill(ctx, there, conn, func() { progress(l.done.Load(), v.Bytes) }); err != nil {
		return err
	}
	return finish(place, filepath.Join(place, prefixNew+v.Digest), v.Digest)
}

// begin makes the folder of a version on its way, with the files of its list; again says that an earlier try left one.
func begin(place string, v Version, conn io.ReadWriter, decode func([]byte) (*asset.Manifest, error)) (l *layout, again bool, err error) {
	fresh := filepath.Join(place, prefixNew+v.Digest)
	if err := os.Mkdir(fresh, 0o755); err != nil {
		if !errors.Is(err, fs.ErrExist) {
			return nil, false, err
		}
		again = true
	}
	if err := os.Mkdir(filepath.Join(fresh, dirRoot), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, false, err
	}
	list, err := listOf(fresh, v.Digest, conn, decode)
	if err != nil {
		return nil, false, err
	}
	if list.Size() != v.Bytes {
		return nil, false, fmt.Errorf("the list of version %s has %d bytes, not %d", v.Digest, list.Size(), v.Bytes)
	}
	root, err := os.OpenRoot(filepath.Join(fresh, dirRoot))
	if err != nil {
		return nil, false, err
	}
	l = &layout{root: root, list: list, starts: list.Starts(), chunks: make([]int64, len(list.Chunks)+1)}
	for i, c := range list.Chunks {
		l.chunks[i+1] = l.chunks[i] + int64(c.Bytes)
	}
	if err := l.prepare(); err != nil {
		return nil, false, errors.Join(err, root.Close())
	}
	return l, again, nil
}

// listOf reads the list, or asks for it.
func listOf(fresh, digest string, conn io.ReadWriter, decode func([]byte) (*asset.Manifest, error)) (*asset.Manifest, error) {
	path := filepath.Join(fresh, fileList)
	raw, err := os.ReadFile(path)
	if err != nil || asset.Sum(raw).String() != digest {
		if raw, err = askList(conn, digest); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			return nil, err
		}
	}
	return decode(raw)
}

// askList asks for the list of a version.
func askList(conn io.ReadWriter, digest string) ([]byte, error) {
	if err := ask(conn, 0, 0); err != nil {
		return nil, err
	}
	var got bytes.Buffer
	if _, err := io.Copy(&got, io.LimitReader(&answer{r: conn}, asset.MaxManifest+1)); err != nil {
		return nil, err
	}
	if asset.Sum(got.Bytes()).String() != digest {
		return nil, errors.New("the list of files is not what its digest says")
	}
	return got.Bytes(), nil
}

// prepare makes the folders, and the files that have no bytes.
func (l *layout) prepare() error {
	last := "."
	for i := range l.list.Files {
		f := &l.list.Files[i]
		if dir := path.Dir(f.Path); dir != last {
			if err := l.root.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			last = dir
		}
		if f.Size == 0 {
			if err := l.piece(f, func(*os.File) error { return nil }); err != nil {
				return err
			}
		}
	}
	return nil
}

// piece opens a file for something.
func (l *layout) piece(f *asset.File, do func(*os.File) error) error {
	mode := os.FileMode(0o644)
	if f.Exec {
		mode = 0o755
	}
	file, err := l.root.OpenFile(f.Path, os.O_RDWR|os.O_CREATE, mode)
	if err != nil {
		return err
	}
	return errors.Join(do(file), file.Close())
}

// each does something with the pieces of files that a chunk is.
func (l *layout) each(chunk int, p []byte, do func(f *asset.File, at int64, p []byte) error) error {
	at := l.chunks[chunk]
	i := sort.Search(len(l.list.Files), func(i int) bool { return l.starts[i+1] > at })
	for ; len(p) > 0; i++ {
		f := &l.list.Files[i]
		n := min(int64(len(p)), l.starts[i+1]-at)
		if n == 0 {
			continue
		}
		if err := do(f, at-l.starts[i], p[:n]); err != nil {
			return err
		}
		at, p = at+n, p[n:]
	}
	return nil
}

// look finds the chunks that are there, and right.
func (l *layout) look(ctx context.Context, there []bool) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(2, runtime.NumCPU()))
	for i, c := range l.list.Chunks {
		group.Go(func() error {
			buf := asset.Buffers.Get().(*[]byte)
			defer asset.Buffers.Put(buf)
			p := (*buf)[:c.Bytes]
			err := l.each(i, p, func(f *asset.File, at int64, p []byte) error {
				return l.piece(f, func(file *os.File) error {
					_, err := file.ReadAt(p, at)
					return err
				})
			})
			if errors.Is(err, io.EOF) {
				return ctx.Err() // it never got so far
			}
			if err == nil && asset.Sum(p) == c.Hash {
				there[i] = true
				l.done.Add(int64(c.Bytes))
			}
			return errors.Join(err, ctx.Err())
		})
	}
	return group.Wait()
}

// run are chunks that follow each other.
type run struct{ first, count int }

// fill asks for what is not there, and writes it.
func (l *layout) fill(ctx context.Context, there []bool, conn io.ReadWriter, told func()) error {
	var runs []run
	for i, is := range there {
		if is {
			continue
		}
		if n := len(runs); n > 0 && runs[n-1].first+runs[n-1].count == i && runs[n-1].count < runLength {
			runs[n-1].count++
		} else {
			runs = append(runs, run{i, 1})
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { // ahead of what is read
		for _, r := range runs {
			if err := ask(conn, r.first, r.count); err != nil {
				return err
			}
		}
		return nil
	})
	writers, wctx := errgroup.WithContext(ctx)
	writers.SetLimit(max(2, runtime.NumCPU()))
	err := func() error {
		for _, r := range runs {
			from := &answer{r: conn}
			for i := r.first; i < r.first+r.count; i++ {
				buf := asset.Buffers.Get().(*[]byte)
				p := (*buf)[:l.list.Chunks[i].Bytes]
				if _, err := io.ReadFull(from, p); err != nil {
					return err
				}
				if err := wctx.Err(); err != nil {
					return err
				}
				writers.Go(func() error {
					defer asset.Buffers.Put(buf)
					return l.put(i, p, told)
				})
			}
			if n, err := from.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
				return errors.Join(errors.New("there is more than was asked for"), err)
			}
		}
		return nil
	}()
	wrote := writers.Wait()
	if wrote != nil || err != nil {
		return errors.Join(wrote, err) // the process ends, and with it who asks ahead
	}
	return group.Wait()
}

// put writes a chunk, if it is the one.
func (l *layout) put(chunk int, p []byte, told func()) error {
	if asset.Sum(p) != l.list.Chunks[chunk].Hash {
		return fmt.Errorf("chunk %d is not what its digest says", chunk)
	}
	err := l.each(chunk, p, func(f *asset.File, at int64, p []byte) error {
		return l.piece(f, func(file *os.File) error {
			_, err := file.WriteAt(p, at)
			return err
		})
	})
	if err == nil {
		l.done.Add(int64(len(p)))
		told()
	}
	return err
}

// finish puts what is whole in its place, durably.
func finish(place, fresh, digest string) error {
	dir, err := os.Open(place)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil { // of a hundred thousand files at once
		return fmt.Errorf("sync what was laid out: %w", err)
	}
	at := filepath.Join(place, digest)
	_ = os.Remove(at) // an empty folder that somebody made who only meant to show what should be there
	if err := os.Rename(fresh, at); err != nil {
		return err
	}
	return dir.Sync()
}

// Drop removes what a project's folder has of a version; half of one is never found in its place.
func Drop(place, digest string) error {
	old := filepath.Join(place, prefixOld+digest)
	if err := os.Rename(filepath.Join(place, digest), old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		if err := os.RemoveAll(old); err != nil { // left by one that was killed
			return err
		}
		if err := os.Rename(filepath.Join(place, digest), old); err != nil {
			return err
		}
	}
	return errors.Join(os.RemoveAll(old), os.RemoveAll(filepath.Join(place, prefixNew+digest)))
}
