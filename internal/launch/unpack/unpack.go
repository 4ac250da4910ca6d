// Package unpack lays out a code archive in a folder.
//
// Place: layer 4, part of launch; it knows archives and nothing else. Promise: whatever the bytes
// are, nothing is written outside the folder, nothing in it leads outside, only files, folders and
// links exist, and the amounts are bounded. Enemies: "../", absolute names, links that lead out,
// devices, bombs.
package unpack

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// Limits bound what an archive may become.
type Limits struct {
	Bytes   int64 // of all files together
	Entries int
}

// DefaultLimits are generous for code; data belongs into datasets.
var DefaultLimits = Limits{Bytes: 16 << 30, Entries: 500_000}

// Stats is what was laid out.
type Stats struct {
	Bytes   int64
	Entries int
}

const maxPath = 4096

var (
	magicZstd = []byte{0x28, 0xb5, 0x2f, 0xfd}
	magicGzip = []byte{0x1f, 0x8b}
)

func bad(en, zh string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "BadArchive",
		fault.T("The code archive can't be used: "+en, "代码归档无法使用："+zh, args...)).
		WithHint(fault.T("Pack the folder again, with `fermi train run` or with tar.", "请用 `fermi train run` 或 tar 重新打包该目录。"))
}

// Unpack reads a tar, tar+gzip or tar+zstd archive into dir, which must exist and should be empty.
// An archive that breaks the rules is fault Invalid; dir then holds what came before.
func Unpack(ctx context.Context, r io.Reader, dir string, limits Limits) (Stats, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Stats{}, err
	}
	defer root.Close()
	plain, closePlain, err := decompress(&ctxReader{ctx.Err, r})
	if err != nil {
		return Stats{}, err
	}
	defer closePlain()
	u := &unpacker{root: root, limits: limits}
	if err := u.all(tar.NewReader(plain)); err != nil {
		return u.stats, err
	}
	return u.stats, u.checkLinks()
}

// ctxReader ends with the context, so that a long archive can be given up.
type ctxReader struct {
	over func() error // why nobody wants it any more; nil: it is wanted
	r    io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	if err := c.over(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &sourceError{err}
	}
	return n, err
}

// sourceError marks a failure of the source, which is not the archive's fault and may be tried again.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

// decompress finds out by the first bytes what the archive is.
func decompress(r io.Reader) (io.Reader, func(), error) {
	b := bufio.NewReaderSize(r, 64<<10)
	head, err := b.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(head, magicZstd):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(128<<20), zstd.WithDecoderMaxMemory(1<<40))
		if err != nil {
			return nil, nil, broken(err)
		}
		return z, z.Close, nil
	case bytes.HasPrefix(head, magicGzip):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, nil, broken(err)
		}
		return z, func() { z.Close() }, nil
	}
	return b, func() {}, nil
}

// broken is what a decoder's error means: the source's own failure stays what it is.
func broken(err error) error {
	var s *sourceError
	if errors.As(err, &s) {
		return s
	}
	return bad("it is damaged or not a tar archive.", "已损坏，或不是 tar 归档。").Because(err)
}

type unpacker struct {
	root   *os.Root
	limits Limits
	stats  Stats
	links  []string
}

func (u *unpacker) all(t *tar.Reader) error {
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return broken(err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		name, err := cleanName(h.Name)
		if err != nil {
			return err
		}
		if u.stats.Entries++; u.stats.Entries > u.limits.Entries {
			return bad("it has more than %d entries.", "条目数超过 %d。", u.limits.Entries)
		}
		if name == "." {
			continue
		}
		if err := u.entry(name, h, t); err != nil {
			return explain(h.Name, err)
		}
	}
}

// explain keeps a full disk and our own refusals apart from what the names themselves brought about.
func explain(name string, err error) error {
	var f *fault.Error
	var s *sourceError
	switch {
	case errors.As(err, &f), errors.As(err, &s):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.New(fault.Full, "DiskFull", fault.T("The disk is full; the code could not be unpacked.", "磁盘已满，无法解包代码。")).Because(err)
	}
	return bad("entry %q can't be created.", "条目 %q 无法创建。", short(name)).Because(err)
}

func short(s string) string {
	if len(s) > 200 {
		return strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}

// cleanName refuses what leads out of the folder; "./a/" is "a".
func cleanName(name string) (string, error) {
	if name == "" || len(name) > maxPath || strings.ContainsRune(name, 0) {
		return "", bad("an entry's name is empty, too long or has a zero byte.", "某条目的名称为空、过长或含零字节。")
	}
	clean := path.Clean(name)
	if path.IsAbs(name) || clean == ".." || strings.HasPrefix(clean, "../") || hasDotDot(name) {
		return "", bad("entry %q leads out of the folder.", "条目 %q 指向目录之外。", short(name))
	}
	return clean, nil
}

func hasDotDot(name string) bool {
	for seg := range strings.SplitSeq(name, "/") {
		if seg == ".." {
			return true
		}
	}
	return false
}

func (u *unpacker) entry(name string, h *tar.Header, body io.Reader) error {
	if err := u.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(h.Mode & 0o777)
	switch h.Typeflag {
	case tar.TypeDir:
		if err := u.root.MkdirAll(name, 0o755); err != nil {
			return err
		}
		return u.root.Chmod(name, mode|0o700)
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.file(name, mode|0o600, h, body)
	case tar.TypeSymlink:
		return u.symlink(name, h.Linkname)
	case tar.TypeLink:
		target, err := cleanName(h.Linkname)
		if err != nil {
			return err
		}
		if err := u.clear(name); err != nil {
			return err
		}
		return u.root.Link(target, name)
	}
	return bad("entry %q is a device or of an unknown type.", "条目 %q 是设备文件或未知类型。", short(name))
}

// clear makes room for a later entry of the same name, which wins.
func (u *unpacker) clear(name string) error {
	err := u.root.Remove(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (u *unpacker) file(name string, mode os.FileMode, h *tar.Header, body io.Reader) error {
	left := u.limits.Bytes - u.stats.Bytes
	if h.Size < 0 || h.Size > left {
		return bad("it unpacks to more than %d bytes.", "解包后超过 %d 字节。", u.limits.Bytes)
	}
	if err := u.clear(name); err != nil {
		return err
	}
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(&bodyReader{body}, left+1))
	u.stats.Bytes += n
	if n > left {
		err = bad("it unpacks to more than %d bytes.", "解包后超过 %d 字节。", u.limits.Bytes)
	}
	return errors.Join(err, f.Close())
}

// bodyReader tells a damaged archive from a disk that refuses the bytes.
type bodyReader struct{ r io.Reader }

func (b *bodyReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = broken(err)
	}
	return n, err
}

// symlink makes a link whose target stays inside by its words; checkLinks looks again at the end
// where it really leads, since links on the way can make ".." mean another folder.
func (u *unpacker) symlink(name, target string) error {
	if target == "" || len(target) > maxPath || path.IsAbs(target) || strings.ContainsRune(target, 0) {
		return bad("link %q leads out of the folder.", "链接 %q 指向目录之外。", short(name))
	}
	if to := path.Join(path.Dir(name), target); to == ".." || strings.HasPrefix(to, "../") {
		return bad("link %q leads out of the folder.", "链接 %q 指向目录之外。", short(name))
	}
	if err := u.clear(name); err != nil {
		return err
	}
	u.links = append(u.links, name)
	return u.root.Symlink(target, name)
}

// checkLinks resolves every link the way a process will; os.Root refuses one that leads out.
func (u *unpacker) checkLinks() error {
	for _, name := range u.links {
		_, err := u.root.Stat(name)
		if err == nil || errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
			continue // a link to nothing is no danger
		}
		return bad("link %q leads out of the folder.", "链接 %q 指向目录之外。", short(name)).Because(err)
	}
	return nil
}
