package deed

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// copyMost is up to which length a file is copied: small files are written over in place, and a link has what they become.
const copyMost = 64 << 10

// ficlone makes a file share the blocks of another, where the file system can.
const ficlone = 0x40049409

// linkAll gives files a second place, which stays as it is when the first is removed.
func (w *where) linkAll(r Request) (a Answer) {
	for _, name := range r.Names {
		a.Errnos = append(a.Errnos, errnoOf(w.link(path.Join(string(r.Name), string(name)), path.Join(string(r.To), string(name)))))
	}
	return a
}

func (w *where) link(from, to string) error {
	f, err := regular(w.root.OpenFile(from, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.root.MkdirAll(path.Dir(to), 0o755); err != nil {
		return err
	}
	if info.Size() > copyMost {
		if err := w.clone(f, to, info); err == nil {
			return nil
		}
		return w.root.Link(from, to)
	}
	return w.copy(f, to, info)
}

// clone makes a file of the same blocks.
func (w *where) clone(from *os.File, to string, info fs.FileInfo) error {
	out, err := w.root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, _, n := syscall.Syscall(syscall.SYS_IOCTL, out.Fd(), ficlone, from.Fd())
	err = out.Close()
	if n == 0 && err == nil {
		err = w.root.Chtimes(to, info.ModTime(), info.ModTime())
	} else if n != 0 {
		err = n
	}
	if err != nil {
		_ = w.root.Remove(to)
	}
	return err
}

func (w *where) copy(from *os.File, to string, info fs.FileInfo) error {
	out, err := w.root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, info.Mode().Perm())
	if err != nil {
		return err
	}
	n, err := io.Copy(out, from)
	if err == nil && n != info.Size() {
		err = syscall.EAGAIN // it is being written
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = w.root.Chtimes(to, info.ModTime(), info.ModTime())
	}
	if err != nil {
		_ = w.root.Remove(to)
	}
	return err
}
