package files

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// piece is what is on its way at once. What a broken call leaves is whole but for the last piece.
const piece = 4 << 20

// maxDepth bounds folders in folders.
const maxDepth = 128

// Source is where files come from. Names are slashed, and relative to what it was opened for.
type Source interface {
	// Stat follows no link at its end. Fault of fs.ErrNotExist where nothing is there.
	Stat(name string) (fs.FileInfo, error)
	List(dir string) ([]fs.FileInfo, error)
	Open(name string) (Reader, error)
}

// Target is where they go.
type Target interface {
	Stat(name string) (fs.FileInfo, error)
	// MakeFolder makes one with all on the way; one that is there is fine.
	MakeFolder(dir string) error
	// Write opens a file, which is made where there is none.
	Write(name string) (Writer, error)
	// Finish gives a part rights and time of a file, and its name, whatever had that before.
	Finish(part, name string, like fs.FileInfo) error
}

// Reader is a file that is read in pieces.
type Reader interface {
	io.ReaderAt
	io.Closer
}

// Writer is one that is written in pieces.
type Writer interface {
	io.WriterAt
	io.Closer
}

// Report is how far a copy is.
type Report struct {
	Files, Same, Links int   // copied, there already, left out
	Bytes              int64 // that were carried, in all
	Name               string
	Done, Size         int64 // of the file of this moment
}

// Copier copies. One goroutine's.
type Copier struct {
	From Source
	To   Target
	// Tell hears of progress.
	Tell   func(Report)
	report Report
}

// Report is what was done so far.
func (c *Copier) Report() Report { return c.report }

// Copy copies a file, or a folder with all in it.
func (c *Copier) Copy(ctx context.Context, from, to string) error {
	info, err := c.From.Stat(from)
	if err != nil {
		return missing(from, err)
	}
	return c.copy(ctx, from, to, info, 0)
}

func missing(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.NotFound, "NoSuchFile", fault.T("There is no file or folder %s.", "没有文件或文件夹 %s。", name)).Because(err)
	}
	return fmt.Errorf("%s: %w", name, err)
}

func (c *Copier) copy(ctx context.Context, from, to string, info fs.FileInfo, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch {
	case info.IsDir():
		return c.folder(ctx, from, to, depth)
	case info.Mode().IsRegular():
		return c.file(ctx, from, to, info)
	}
	c.report.Links++ // links, sockets and devices mean nothing elsewhere
	return nil
}

func (c *Copier) folder(ctx context.Context, from, to string, depth int) error {
	if depth > maxDepth {
		return fault.New(fault.Invalid, "TooDeep", fault.T("%s is nested too deeply.", "%s 嵌套过深。", from))
	}
	if err := c.To.MakeFolder(to); err != nil {
		return fmt.Errorf("%s: %w", to, err)
	}
	list, err := c.From.List(from)
	if err != nil {
		return missing(from, err)
	}
	for _, info := range list {
		name := info.Name()
		if !IsName(name) {
			return fault.New(fault.Invalid, "BadName", fault.T("The folder %s tells a name that no file has: %q.", "文件夹 %s 中有非法的文件名：%q。", from, name))
		}
		if isPart(name) {
			continue // of another copy
		}
		if err := c.copy(ctx, path.Join(from, name), path.Join(to, name), info, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// IsName says that this is the name of one file, and nothing else.
func IsName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) < 256 && !strings.ContainsAny(name, "/\\\x00")
}

const (
	partPrefix = ".fermi-"
	partSuffix = ".part"
)

func isPart(name string) bool {
	return strings.HasPrefix(name, partPrefix) && strings.HasSuffix(name, partSuffix)
}

// partOf is what a file is called while it is copied: another one for each state of what it is copied from.
func partOf(to string, info fs.FileInfo) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d %d", path.Base(to), info.Size(), info.ModTime().Unix())
	return path.Join(path.Dir(to), fmt.Sprintf("%s%016x%s", partPrefix, h.Sum64(), partSuffix))
}

func (c *Copier) file(ctx context.Context, from, to string, info fs.FileInfo) error {
	c.report.Name, c.report.Done, c.report.Size = from, 0, info.Size()
	if have, err := c.To.Stat(to); err == nil && have.Mode().IsRegular() && alike(have, info) {
		c.report.Same++
		return nil
	} else if err == nil && have.IsDir() {
		return fault.New(fault.Conflict, "IsFolder", fault.T("%s is a folder there, and a file here.", "%s 在目标处是文件夹。", to))
	}
	part := partOf(to, info)
	if err := c.carry(ctx, from, part, info); err != nil {
		return err
	}
	if now, err := c.From.Stat(from); err != nil || !alike(now, info) {
		return errChanged(from)
	}
	if err := c.To.Finish(part, to, info); err != nil {
		return fmt.Errorf("%s: %w", to, err)
	}
	c.report.Files++
	return nil
}

// alike says that two files are the same as far as one can tell without reading them.
func alike(a, b fs.FileInfo) bool {
	return a.Size() == b.Size() && a.ModTime().Unix() == b.ModTime().Unix()
}

func errChanged(name string) error {
	return fault.New(fault.Conflict, "FileChanged", fault.T("%s changed while it was copied; copy it again.", "%s 在复制过程中发生变化，请重新复制。", name))
}

// carry brings what is missing of a file.
func (c *Copier) carry(ctx context.Context, from, part string, info fs.FileInfo) error {
	r, err := c.From.Open(from)
	if err != nil {
		return missing(from, err)
	}
	defer r.Close()
	at := int64(0)
	if had, err := c.To.Stat(part); err == nil && had.Mode().IsRegular() && had.Size() <= info.Size() {
		if at = had.Size(); at < info.Size() {
			at -= at % piece
		}
	}
	w, err := c.To.Write(part)
	if err != nil {
		return fmt.Errorf("%s: %w", part, err)
	}
	buf := make([]byte, min(piece, max(info.Size()-at, 1)))
	for at < info.Size() {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, w.Close())
		}
		b := buf[:min(int64(len(buf)), info.Size()-at)]
		n, err := r.ReadAt(b, at)
		if n < len(b) {
			if errors.Is(err, io.EOF) {
				err = errChanged(from)
			}
			return errors.Join(err, w.Close())
		}
		if _, err := w.WriteAt(b, at); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", part, err), w.Close())
		}
		at += int64(n)
		c.report.Done, c.report.Bytes = at, c.report.Bytes+int64(n)
		if c.Tell != nil {
			c.Tell(c.report)
		}
	}
	return w.Close()
}
