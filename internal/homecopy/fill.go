package homecopy

import (
	"bufio"
	"context"
	"encoding/json"
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

const (
	// marker lies in a home that is not filled yet.
	marker = ".fermi-filling"
	// maxLine bounds a line of the list.
	maxLine = 64 << 10
	// looks is after how many entries it is seen whether anybody still wants it.
	looks = 64
)

// Fill fills the home at dir from the files of a version at from. A home that has anything in it, and no cut Fill, is left as it is: filled is false.
func Fill(ctx context.Context, from, dir string) (filled bool, err error) {
	home, err := os.OpenRoot(dir)
	if err != nil {
		return false, err
	}
	defer home.Close()
	version, err := os.OpenRoot(from)
	if err != nil {
		return false, err
	}
	defer version.Close()
	if fresh, err := begin(home); err != nil || !fresh {
		return false, err
	}
	f := &filler{home: home, version: version}
	if err := f.all(ctx); err != nil {
		return false, err
	}
	if err := settle(dir); err != nil { // before it counts as whole
		return false, err
	}
	return true, errors.Join(home.Remove(marker), settle(dir))
}

// longestDigest bounds the name of an image in a version.
const longestDigest = 256

// ImageOf is the digest of the image over which a version at from has a layer; "": it has none. It is input: whoever uses it looks at it.
func ImageOf(from string) (string, error) {
	version, err := os.OpenRoot(from)
	if err != nil {
		return "", err
	}
	defer version.Close()
	f, err := version.Open(image)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, longestDigest))
	return string(text), err
}

// OpenLayer opens what a version has of a layer.
func OpenLayer(from string) (io.ReadCloser, error) {
	version, err := os.OpenRoot(from)
	if err != nil {
		return nil, err
	}
	defer version.Close()
	return version.Open(over)
}

// begin says whether the home is to be filled, and marks it.
func begin(home *os.Root) (fresh bool, err error) {
	list, err := fs.ReadDir(home.FS(), ".")
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(list, func(e fs.DirEntry) bool { return e.Name() == marker }) {
		return true, nil
	}
	if slices.ContainsFunc(list, func(e fs.DirEntry) bool { return e.Name() != "lost+found" }) {
		return false, nil
	}
	f, err := home.OpenFile(marker, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return false, err
	}
	return true, errors.Join(f.Sync(), f.Close())
}

func settle(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}

// filler is a Fill on its way. Links come last, so that nothing is written through one; folders get their modes behind what lies in them.
type filler struct {
	home, version  *os.Root
	folders, links []entry
}

func (f *filler) all(ctx context.Context) error {
	list, err := f.version.Open(index)
	if errors.Is(err, fs.ErrNotExist) {
		return bad("it has no list")
	}
	if err != nil {
		return err
	}
	defer list.Close()
	lines := bufio.NewScanner(list)
	lines.Buffer(nil, maxLine)
	for n := 0; lines.Scan(); n++ {
		if n%looks == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return bad(err.Error())
		}
		if err := f.put(e); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return bad(err.Error())
	}
	for _, e := range f.links {
		if err := f.home.Symlink(string(e.Link), string(e.Path)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for _, e := range slices.Backward(f.folders) {
		p := string(e.Path)
		if err := errors.Join(f.home.Chtimes(p, time.Time{}, time.Unix(0, e.Time)), f.home.Chmod(p, e.Mode.Perm())); err != nil {
			return err
		}
	}
	return nil
}

func (f *filler) put(e entry) error {
	p := string(e.Path)
	if !filepath.IsLocal(p) || path.Clean(p) != p || p == "." || p == marker || strings.ContainsRune(p, 0) {
		return bad("a path leads out")
	}
	switch e.Mode.Type() {
	case fs.ModeDir:
		f.folders = append(f.folders, e)
		if err := f.home.Mkdir(p, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return f.home.Chmod(p, 0o700) // of a try that was cut
	case fs.ModeSymlink:
		f.links = append(f.links, e)
		return nil
	case 0:
		return f.file(p, e)
	}
	return bad("it names what is no file")
}

// file copies one, unless it is there from a try that was cut.
func (f *filler) file(p string, e entry) (err error) {
	at := p
	if e.At != "" {
		at = e.At
	}
	in, err := f.version.Open(at)
	if errors.Is(err, fs.ErrNotExist) {
		return bad("a file is not there")
	}
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return bad("a file is none")
	}
	was, err := f.home.Lstat(p)
	switch {
	case err == nil && was.Mode().IsRegular() && was.Size() == info.Size() && was.ModTime().UnixNano() == e.Time:
		return f.home.Chmod(p, e.Mode.Perm())
	case err == nil:
		err = f.home.Remove(p)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return err
	}
	out, err := f.home.OpenFile(p, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	// The time comes last: it says that the file is whole.
	return errors.Join(out.Chmod(e.Mode.Perm()), out.Close(), f.home.Chtimes(p, time.Time{}, time.Unix(0, e.Time)))
}

// bad is a version that is no home, or was made by somebody who wanted something else.
func bad(why string) error {
	return fault.New(fault.Invalid, "NoSnapshot", fault.T("The version that the home is to begin with is no snapshot of a home, or is damaged.", "作为主目录起点的版本不是主目录快照，或已损坏。")).
		WithHint(fault.T("Name a snapshot: fermi env create NEW --from ENVIRONMENT.", "请指定快照：fermi env create 新环境 --from 环境。")).Because(errors.New(why))
}
