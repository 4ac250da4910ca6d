package layer

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// maxFolders bounds what is remembered of a layer while it is laid.
const maxFolders = 1 << 20

// Lay writes what Diff wrote over the file system that is the root here: a bare image. Where something is mounted nothing is written.
func Lay(ctx context.Context, from io.Reader) error {
	mounts, err := mountPoints()
	if err != nil {
		return err
	}
	return lay(ctx, from, "/", mounts)
}

func lay(ctx context.Context, from io.Reader, dir string, skip map[string]bool) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	l := &layman{root: root, skip: skip}
	for archive := tar.NewReader(from); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return bad(err.Error())
		}
		if err := errors.Join(ctx.Err(), l.put(h, archive)); err != nil {
			return err
		}
	}
	for _, f := range slices.Backward(l.folders) { // what was written into them changed their times
		if err := root.Chtimes(f.name, time.Time{}, f.when); err != nil {
			return err
		}
	}
	at, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(at.Fd())), at.Close())
}

// layman is a Lay on its way.
type layman struct {
	root    *os.Root
	skip    map[string]bool
	folders []folder
}

type folder struct {
	name string
	when time.Time
}

// isMounted says that something is mounted at a place, or on the way to it.
func (l *layman) isMounted(name string) bool {
	for at := name; at != "."; at = path.Dir(at) {
		if l.skip["/"+at] {
			return true
		}
	}
	return false
}

func (l *layman) put(h *tar.Header, content io.Reader) error {
	name := strings.TrimSuffix(h.Name, "/")
	if !filepath.IsLocal(name) || path.Clean(name) != name || name == "." || strings.ContainsRune(name, 0) {
		return bad("a path leads out")
	}
	if was, removed := strings.CutPrefix(path.Base(name), gone); removed {
		at := path.Join(path.Dir(name), was)
		if was == "" || was == "." || was == ".." {
			return bad("it removes what has no name")
		}
		if l.isMounted(at) {
			return nil
		}
		return l.root.RemoveAll(at)
	}
	if l.isMounted(name) {
		return nil
	}
	mode := h.FileInfo().Mode()
	was, err := l.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !was.IsDir() || h.Typeflag != tar.TypeDir:
		if err := l.root.RemoveAll(name); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := l.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if l.folders = append(l.folders, folder{name, h.ModTime}); len(l.folders) > maxFolders {
			return bad("too many folders")
		}
		return errors.Join(l.root.Lchown(name, h.Uid, h.Gid), l.root.Chmod(name, mode))
	case tar.TypeSymlink:
		return errors.Join(l.root.Symlink(h.Linkname, name), l.root.Lchown(name, h.Uid, h.Gid))
	case tar.TypeReg:
		out, err := l.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if _, err := io.Copy(out, content); err != nil {
			return errors.Join(err, out.Close())
		}
		// The mode comes after the owner, whose change takes bits of it away.
		return errors.Join(out.Close(), l.root.Lchown(name, h.Uid, h.Gid), l.root.Chmod(name, mode), l.root.Chtimes(name, time.Time{}, h.ModTime))
	}
	return bad("it has what is no file, folder or link")
}

// bad is an archive that is damaged, or was made by somebody who wanted something else.
func bad(why string) error {
	return fault.New(fault.Invalid, "NoLayer", fault.T("What was kept of what is installed over the image is damaged.", "所保存的镜像之上的内容已损坏。")).
		WithHint(fault.T("Move without it: --without-layer.", "可不保留该内容进行迁移：--without-layer。")).Because(errors.New(why))
}
