package cli

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/fermi-cluster/fermi/internal/cli/ignore"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	// maxPack bounds what is packed, before compression, and so the archive too.
	maxPack = 2 << 30
	// maxPackFiles bounds the number of entries.
	maxPackFiles = 100_000
)

// packed is what went into an archive.
type packed struct {
	Digest string // sha256:<64 hex> of the compressed bytes
	Size   int64  // of the compressed bytes
	Files  int
	Bytes  int64 // before compression
	// Left are paths that can't travel: links out of the folder, sockets, devices, a server's data.
	Left []string
	// Environments are virtual environments that were left out.
	Environments []string

	seen *footprint
}

// pack writes a folder as tar+zstd. The same files give the same bytes, whenever and by whomever
// packed: sorted, with times zeroed, owners dropped and modes reduced to "executable or not".
// count is told of each byte read.
func pack(ctx context.Context, dir string, w io.Writer, count func(int64)) (packed, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return packed{}, cantPack(dir, err)
	}
	defer root.Close()
	ig, err := loadIgnore(root)
	if err != nil {
		return packed{}, err
	}
	sum := sha256.New()
	sized := &sizeWriter{w: io.MultiWriter(w, sum)}
	// One thread: more would be quicker, but could cut blocks differently.
	z, err := zstd.NewWriter(sized, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return packed{}, err
	}
	p := &packer{ctx: ctx, root: root, ignore: ig, tar: tar.NewWriter(z), count: count, buf: make([]byte, 256<<10), seen: newFootprint()}
	err = fs.WalkDir(root.FS(), ".", p.visit)
	if err == nil {
		err = p.tar.Close()
	}
	if closeErr := z.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return packed{}, cantPack(dir, err)
	}
	p.out.Size, p.out.Digest, p.out.seen = sized.n, "sha256:"+hex.EncodeToString(sum.Sum(nil)), p.seen
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
	seen   *footprint
	out    packed
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
	if p.out.Files++; p.out.Files > maxPackFiles {
		return fault.New(fault.TooLarge, "TooManyFiles", fault.T(
			"The folder has over %d files.", "文件夹中的文件超过 %d 个。", maxPackFiles)).WithHint(leaveOut)
	}
	switch {
	case d.IsDir() && p.ours(name):
		p.left(name)
		return fs.SkipDir
	case d.IsDir():
		p.seen.add(name, 'd', "", nil)
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
	if p.out.Bytes += n; p.out.Bytes > maxPack {
		return fault.New(fault.TooLarge, "CodeTooLarge", fault.T(
			"The folder is larger than %d GiB; %s alone has %s.", "文件夹超过 %d GiB；其中 %s 有 %s。", maxPack>>30, name, size(n))).WithHint(leaveOut)
	}
	mode := int64(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	p.seen.add(name, 'f', "", info)
	if p.tar == nil {
		return nil
	}
	if err := p.header(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: n, Mode: mode, ModTime: time.Unix(0, 0)}); err != nil {
		return err
	}
	got, err := io.CopyBuffer(struct{ io.Writer }{p.tar}, struct{ io.Reader }{&countReader{p.ctx, io.LimitReader(f, n), p.count}}, p.buf)
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
	p.seen.add(name, 'l', target, nil)
	return p.header(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777, ModTime: time.Unix(0, 0)})
}

type sizeWriter struct {
	w io.Writer
	n int64
}

func (s *sizeWriter) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.n += int64(n)
	return n, err
}

// ship packs a folder into a nameless temporary file and uploads it unless the server has it. A folder that is as it was
// when it was packed before is not packed again.
func (s *session) ship(ctx context.Context, dir string) (packed, error) {
	if p, ok := unchanged(ctx, dir); ok {
		if has, err := s.client.HasArchive(ctx, p.Digest); err != nil || has {
			s.leftOut(p)
			return p, err
		}
	}
	f, err := os.CreateTemp("", "fermi-code-*")
	if err != nil {
		return packed{}, fault.From(err)
	}
	defer f.Close()
	// Without a name it goes away with this process, however that ends.
	if err := os.Remove(f.Name()); err != nil {
		return packed{}, fault.From(err)
	}
	began := time.Now()
	bar := s.progress(s.t("packing", "打包"), -1)
	p, err := pack(ctx, dir, f, bar.add)
	bar.done()
	if err != nil {
		return p, err
	}
	p.remember(dir, began)
	s.leftOut(p)
	has, err := s.client.HasArchive(ctx, p.Digest)
	if err != nil || has {
		return p, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return p, fault.From(err)
	}
	bar = s.progress(s.t("uploading", "上传"), p.Size)
	defer bar.done()
	got, err := s.client.PutArchive(ctx, &countReader{ctx, f, bar.add}, p.Size)
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
func (s *session) leftOut(p packed) {
	for i, name := range p.Left {
		if i == 5 {
			s.say("… and %d more.", "……以及另外 %d 个。", len(p.Left)-i)
			break
		}
		s.say("Left out: %s (a link out of the folder, no file, or a server's data).", "已略过：%s（指向文件夹外的链接、非普通文件或服务器数据）。", clean(name))
	}
	if len(p.Environments) > 0 {
		s.say("Left out: %s (a virtual environment of this machine).", "已略过：%s（本机的虚拟环境）。", cut(clean(strings.Join(p.Environments, ", ")), 200))
	}
}
