package pack

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/fermi-cluster/fermi/internal/cli/footprint"
	"github.com/fermi-cluster/fermi/internal/cli/ignore"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	// most bounds what is packed, before compression, and so the archive too.
	most = 2 << 30
	// mostFiles bounds the number of entries.
	mostFiles = 100_000
)

// Packed is what went into an archive.
type Packed struct {
	Digest string // sha256:<64 hex> of the compressed bytes
	Size   int64  // of the compressed bytes
	Files  int
	Bytes  int64 // before compression
	// Left are paths that can't travel: links out of the folder, sockets, devices, a server's data.
	Left []string
	// Environments are virtual environments that were left out.
	Environments []string

	seen *footprint.Footprint
}

// Folder writes a folder as tar+zstd. The same files give the same bytes, whenever and by whomever
// packed: sorted, with times zeroed, owners dropped and modes reduced to "executable or not".
// count is told of each byte read.
func Folder(ctx context.Context, dir string, w io.Writer, count func(int64)) (Packed, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Packed{}, cantPack(dir, err)
	}
	defer root.Close()
	ig, err := loadIgnore(root)
	if err != nil {
		return Packed{}, err
	}
	sum, sized := sha256.New(), new(footprint.Size)
	// One thread: more would be quicker, but could cut blocks differently.
	z, err := zstd.NewWriter(io.MultiWriter(w, sum, sized), zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return Packed{}, err
	}
	p := &packer{ctx: ctx, root: root, ignore: ig, tar: tar.NewWriter(z), count: count, buf: make([]byte, 256<<10), seen: footprint.New()}
	err = fs.WalkDir(root.FS(), ".", p.visit)
	if err == nil {
		err = p.tar.Close()
	}
	if closeErr := z.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return Packed{}, cantPack(dir, err)
	}
	p.out.Size, p.out.Digest, p.out.seen = int64(*sized), "sha256:"+hex.EncodeToString(sum.Sum(nil)), p.seen
	return p.out, nil
}

func cantPack(dir string, err error) error {
	var ours *fault.Error
	if errors.As(err, &ours) || errors.Is(err, context.Canceled) {
		return fault.From(err)
	}
	return fault.New(fault.Invalid, "CantPack", fault.T(
		"The folder %s can't be packed: %s.", "无法打包文件夹 %s：%s。", dir, err)).Because(err)
}

func loadIgnore(root *os.Root) (*ignore.Rules, error) {
	for _, file := range ignore.Files {
		f, err := root.Open(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, cantPack(file, err)
		}
		defer f.Close()
		data, err := io.ReadAll(io.LimitReader(f, ignore.MaxSize+1))
		if err != nil {
			return nil, cantPack(file, err)
		}
		return ignore.Parse(file, data)
	}
	return &ignore.Rules{}, nil
}

type packer struct {
	ctx    context.Context
	root   *os.Root
	ignore *ignore.Rules
	tar    *tar.Writer // nil: only look
	count  func(int64)
	buf    []byte
	seen   *footprint.Footprint
	out    Packed
}

// visit is called in lexical order within each folder, which is the same everywhere.
func (p *packer) visit(name string, d fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if name == "." {
		if p.ours(name) {
			return fault.New(fault.Invalid, "ServerData", fault.T("It holds the data and keys of a server", "其中是服务器的数据和密钥")).WithHint(leaveOut)
		}
		return nil
	}
	environment := d.IsDir() && p.environment(name) || p.inEnvironment(name)
	if p.ignore.Ignored(name, d.IsDir(), environment) {
		if environment {
			p.out.Environments = append(p.out.Environments, name)
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	if p.out.Files++; p.out.Files > mostFiles {
		return fault.New(fault.TooLarge, "TooManyFiles", fault.T(
			"The folder has over %d files.", "文件夹中的文件超过 %d 个。", mostFiles)).WithHint(leaveOut)
	}
	switch {
	case d.IsDir() && p.ours(name):
		p.left(name)
		return fs.SkipDir
	case d.IsDir():
		p.seen.Add(name, 'd', "", nil)
		return p.header(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: time.Unix(0, 0)})
	case d.Type().IsRegular():
		return p.file(name)
	case d.Type() == fs.ModeSymlink:
		return p.link(name)
	}
	p.left(name)
	return nil
}

// environment says that a folder is a virtual environment of venv, virtualenv, uv or conda.
func (p *packer) environment(name string) bool {
	for _, file := range []string{"pyvenv.cfg", "conda-meta"} {
		if _, err := p.root.Lstat(path.Join(name, file)); err == nil {
			return true
		}
	}
	return false
}

// inEnvironment says that the code was put into a virtual environment, and this is a part of that.
func (p *packer) inEnvironment(name string) bool {
	switch name {
	case "bin", "lib", "lib64", "include", "share", "conda-meta":
		return p.environment(".")
	}
	return false
}

// header begins an entry of the archive, if there is one.
func (p *packer) header(h *tar.Header) error {
	if p.tar == nil {
		return nil
	}
	return p.tar.WriteHeader(h)
}

// ours says that a folder is the data of a server: its keys travel nowhere.
func (p *packer) ours(name string) bool {
	for _, file := range []string{"format", "link.key"} {
		if _, err := p.root.Lstat(path.Join(name, file)); err != nil {
			return false
		}
	}
	return true
}

var leaveOut = fault.T("Name what isn't needed in "+ignore.File+", or choose a smaller folder with --code.",
	"可在 "+ignore.File+" 中排除不需要的文件，或用 --code 指定更小的文件夹。")

func (p *packer) left(name string) {
	p.out.Files--
	p.out.Left = append(p.out.Left, name)
}

func (p *packer) file(name string) error {
	var f *os.File
	var info fs.FileInfo
	var err error
	if p.tar == nil {
		info, err = p.root.Lstat(name)
	} else if f, err = p.root.Open(name); err == nil {
		defer f.Close()
		info, err = f.Stat()
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() { // it was one a moment ago
		p.left(name)
		return nil
	}
	n := info.Size()
	if p.out.Bytes += n; p.out.Bytes > most {
		return fault.New(fault.TooLarge, "CodeTooLarge", fault.T(
			"The folder is larger than %d GiB; %s alone has %d MiB.", "文件夹超过 %d GiB；其中 %s 有 %d MiB。", most>>30, name, n>>20)).WithHint(leaveOut)
	}
	mode := int64(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	p.seen.Add(name, 'f', "", info)
	if p.tar == nil {
		return nil
	}
	if err := p.header(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: n, Mode: mode, ModTime: time.Unix(0, 0)}); err != nil {
		return err
	}
	got, err := io.CopyBuffer(struct{ io.Writer }{p.tar}, struct{ io.Reader }{&Reader{p.ctx, io.LimitReader(f, n), p.count}}, p.buf)
	if err != nil {
		return err
	}
	if got < n {
		return fault.New(fault.Conflict, "FileChanged", fault.T(
			"%s became shorter while it was being packed; try again.", "打包时 %s 变短了，请重试。", name))
	}
	return nil
}

// link keeps links that stay inside the folder; the others would point at nothing, or worse.
func (p *packer) link(name string) error {
	target, err := p.root.Readlink(name)
	if err != nil {
		return err
	}
	end := path.Join(path.Dir(name), target)
	if path.IsAbs(target) || end == ".." || strings.HasPrefix(end, "../") {
		p.left(name)
		return nil
	}
	p.seen.Add(name, 'l', target, nil)
	return p.header(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777, ModTime: time.Unix(0, 0)})
}

// Reader tells of what is read, and ends with its context.
type Reader struct {
	Ctx context.Context //nolint:containedctx // of one call
	R   io.Reader
	Add func(int64)
}

// Read reads.
func (c *Reader) Read(p []byte) (int, error) {
	if err := c.Ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.R.Read(p)
	c.Add(int64(n))
	return n, err
}
