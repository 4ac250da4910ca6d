package rootfs

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/containerd/containerd/v2/pkg/archive"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	fetchWidth = 3 // layers at a time
	maxLayers  = 512
	maxEntries = 10_000_000
	// leaveFree is what must stay on the disk.
	leaveFree = 1 << 30
	// maxAbout bounds the environment that an image brings.
	maxAbout = 1 << 20
)

// assemble fetches an image and lays it out in its place; its lock is held alone.
func assemble(ctx context.Context, dir, key string, from source, progress func(done, total int64), m *meter) (err error) {
	collect(dir, time.Now())
	manifest, err := from.image.Manifest()
	if err != nil {
		return err
	}
	config, err := from.image.ConfigFile()
	if err != nil {
		return err
	}
	layers, err := from.image.Layers()
	if err != nil {
		return err
	}
	defer func() {
		var final *fault.Error
		if err == nil || errors.As(err, &final) { // the disk is wanted for other things; whoever else needs a layer fetches it again
			forget(dir, layers)
		}
	}()
	said := about{Env: config.Config.Env}
	if size, err := json.Marshal(said); err != nil || len(layers) > maxLayers || len(size) > maxAbout || config.Config.Env != nil && strings.ContainsRune(strings.Join(config.Config.Env, ""), 0) {
		return unusable(from, errors.New("too many layers, or an environment that no process can have"))
	}
	if err := fetchAll(ctx, dir, layers, total(manifest), progress); err != nil {
		return err
	}
	tmp := filepath.Join(dir, dirRoots, ".new-"+key)
	if err := errors.Join(os.RemoveAll(tmp), os.MkdirAll(filepath.Join(tmp, dirRoot), 0o755)); err != nil {
		return err
	}
	err = layOut(ctx, dir, filepath.Join(tmp, dirRoot), from, layers, m)
	if err == nil {
		err = makeDir(config.Config, filepath.Join(tmp, dirRoot))
	}
	if err == nil {
		if said.Says, err = hear(config.Config, filepath.Join(tmp, dirRoot)); err != nil {
			err = unusable(from, err)
		}
	}
	if err == nil {
		said.Bytes, err = measure(tmp)
	}
	if err == nil {
		err = m.at(said.Bytes)
	}
	var text []byte
	if err == nil {
		text, err = json.Marshal(said)
	}
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(tmp, fileAbout), text, 0o600), syncTree(tmp))
	}
	if err == nil {
		err = errors.Join(os.Rename(tmp, filepath.Join(dir, dirRoots, key)), syncTree(dir))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return nil
}

// forget removes layers that were fetched.
func forget(dir string, layers []v1.Layer) {
	for _, l := range layers {
		if h, err := l.Digest(); err == nil {
			_ = os.Remove(filepath.Join(dir, dirBlobs, h.Hex))
		}
	}
}

// total is what the layers of an image have, as they are fetched.
func total(m *v1.Manifest) (sum int64) {
	for _, l := range m.Layers {
		sum += l.Size
	}
	return sum
}

// size is total; 0 where the image would not be fetched.
func (s *source) size() (int64, error) {
	if s.image == nil {
		return 0, nil
	}
	m, err := s.image.Manifest()
	if err != nil {
		return 0, err
	}
	return total(m), nil
}

// meter raises a charge while an image is laid out.
type meter struct {
	most, laid, told int64
	raise            func(bytes int64) error
}

// more counts a file.
func (m *meter) more(n int64) error {
	if m.laid += n + eachFile; m.most <= 0 || m.laid-m.told < min(chargeStep, m.most/16) {
		return nil
	}
	return m.at(m.laid)
}

// at is what it takes, if that is more than what was charged.
func (m *meter) at(bytes int64) error {
	if bytes <= m.told {
		return nil
	}
	m.told = bytes
	return m.raise(bytes)
}

func unusable(from source, err error) error {
	return fault.New(fault.Invalid, "BadImage", fault.T("The image %s can't be used: %v.", "镜像 %s 无法使用：%v。", from.name, err)).
		WithHint(fault.T("Build it again.", "请重新构建。")).Because(err)
}

// fetchAll brings the layers that are not here. Each is kept when it is whole: a try that fails costs only the others.
func fetchAll(ctx context.Context, dir string, layers []v1.Layer, total int64, progress func(done, total int64)) error {
	var done atomic.Int64
	tell := func(n int64) {
		if now := done.Add(n); progress != nil {
			progress(now, total)
		}
	}
	tell(0)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fetchWidth)
	seen := map[string]bool{}
	for _, layer := range layers {
		h, err := layer.Digest()
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		if seen[h.Hex] {
			continue
		}
		seen[h.Hex] = true
		group.Go(func() error { return fetch(ctx, filepath.Join(dir, dirBlobs), h, layer, tell) })
	}
	return group.Wait()
}

// fetch brings one layer. Launchers that fetch the same one for different images each make their own file.
func fetch(ctx context.Context, dir string, h v1.Hash, layer v1.Layer, tell func(int64)) error {
	place := filepath.Join(dir, h.Hex)
	if info, err := os.Stat(place); err == nil { // renamed when it was whole
		tell(info.Size())
		return nil
	}
	body, err := layer.Compressed() // its end is an error if it is not what the digest says
	if err != nil {
		return err
	}
	defer body.Close()
	stop := context.AfterFunc(ctx, func() { body.Close() })
	defer stop()
	quiet := time.AfterFunc(silence, func() { body.Close() })
	defer quiet.Stop()
	heard := func(n int64) {
		quiet.Reset(silence)
		tell(n)
	}
	tmp, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	room := &roomy{w: tmp, dir: dir}
	if _, err := io.Copy(room, &counted{body, heard}); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), place)
}

// counted tells how much was read.
type counted struct {
	r    io.Reader
	tell func(int64)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.tell(int64(n))
	return n, err
}

// roomy refuses to fill the disk.
type roomy struct {
	w    io.Writer
	dir  string
	left int64 // until the disk is asked again
}

func (r *roomy) Write(p []byte) (int, error) {
	if err := r.need(int64(len(p))); err != nil {
		return 0, err
	}
	return r.w.Write(p)
}

// need says whether so many more bytes may be written.
func (r *roomy) need(n int64) error {
	if r.left -= n; r.left >= 0 {
		return nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(r.dir, &st); err != nil {
		return err
	}
	free := int64(st.Bavail) * st.Bsize
	if free < leaveFree+n {
		return fault.New(fault.Full, "DiskFull", fault.T("The disk of the node has no room for the image.", "节点磁盘空间不足，无法存放镜像。")).
			WithHint(fault.T("Free some, or use a smaller image.", "请清理磁盘或使用更小的镜像。"))
	}
	r.left = min(64<<20, (free-leaveFree)/8)
	return nil
}

// layOut puts the layers one over the other.
func layOut(ctx context.Context, dir, root string, from source, layers []v1.Layer, m *meter) error {
	room, entries := &roomy{dir: root}, 0
	keep := func(h *tar.Header) (bool, error) {
		if entries++; entries > maxEntries {
			return false, unusable(from, errors.New("too many files"))
		}
		if err := errors.Join(room.need(h.Size), m.more(h.Size)); err != nil {
			return false, err
		}
		return tame(h), nil
	}
	for n, layer := range layers {
		h, err := layer.Digest()
		if err != nil {
			return err
		}
		if err := layOne(ctx, filepath.Join(dir, dirBlobs, h.Hex), root, keep); err != nil {
			var f *fault.Error
			var disk *fs.PathError
			if errors.As(err, &f) || ctx.Err() != nil || errors.As(err, &disk) && errors.Is(err, unix.ENOSPC) {
				return err
			}
			return unusable(from, fmt.Errorf("layer %d: %w", n+1, err))
		}
	}
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(p, 0o755) // those that no layer names have what our umask left
		}
		return err
	})
}

// tame makes an entry one that any project may have: its maker's, readable, without special rights; false leaves it out.
func tame(h *tar.Header) bool {
	switch h.Typeflag {
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return false
	}
	h.Mode = h.Mode&0o777 | 0o444
	if h.Mode&0o111 != 0 {
		h.Mode |= 0o111
	}
	if h.Typeflag == tar.TypeDir {
		h.Mode |= 0o755 // or its own maker could put nothing in it
	}
	h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
	for name := range h.PAXRecords {
		if strings.HasPrefix(name, "SCHILY.xattr.") {
			delete(h.PAXRecords, name)
		}
	}
	return true
}

// layOne lays out one layer; whiteouts in it remove what lower ones brought, and no link leads it out of root.
func layOne(ctx context.Context, blob, root string, keep archive.Filter) error {
	f, err := os.Open(blob)
	if err != nil {
		return err
	}
	defer f.Close()
	plain, done, err := decompressed(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return err
	}
	defer done()
	_, err = archive.Apply(ctx, root, plain, archive.WithFilter(keep), archive.WithNoSameOwner())
	return err
}

// decompressed reads what OCI allows: gzip, zstd, or neither.
func decompressed(r *bufio.Reader) (io.Reader, func(), error) {
	magic, _ := r.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(r)
		return z, func() {}, err
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return r, func() {}, nil
}

// syncTree brings everything below a folder, its file system's rest with it, to the disk.
func syncTree(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
