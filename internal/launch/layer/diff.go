package layer

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Base is where the bare image is found beside what is the root here.
const Base = "/run/fermi-base"

// gone goes before the name of what was removed.
const gone = ".wh."

// Diff writes to w what differs between the file system that is the root here and the bare image.
func Diff(ctx context.Context, w io.Writer) (changed, removed int, err error) {
	mounts, err := mountPoints()
	if err != nil {
		return 0, 0, err
	}
	out := bufio.NewWriterSize(w, 1<<20)
	d := &differ{to: tar.NewWriter(out), base: Base, now: "/", skip: mounts}
	if err = d.compare(ctx, "."); err == nil {
		err = errors.Join(d.to.Close(), out.Flush())
	}
	return d.changed, d.removed, err
}

// differ writes as a layer what differs between two file systems.
type differ struct {
	to               *tar.Writer
	base, now        string // where they are
	skip             map[string]bool
	changed, removed int
}

// compare goes through a folder of both, by its path below them; it stands in the second.
func (d *differ) compare(ctx context.Context, dir string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	before, err := names(filepath.Join(d.base, dir))
	if err != nil {
		return err
	}
	after, err := names(filepath.Join(d.now, dir))
	if err != nil {
		return err
	}
	for _, n := range before {
		if at := path.Join(dir, n); !isIn(after, n) && !d.skip["/"+at] {
			d.removed++
			if err := d.to.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(dir, gone+n), Mode: 0o600}); err != nil {
				return err
			}
		}
	}
	for _, n := range after {
		if at := path.Join(dir, n); !d.skip["/"+at] && !strings.HasPrefix(n, gone) {
			if err := d.entry(ctx, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// isIn says that a name is in a list that is in order.
func isIn(list []string, n string) bool {
	_, there := slices.BinarySearch(list, n)
	return there
}

// names are those in a folder, in order; of what is no folder, none.
func names(dir string) (out []string, err error) {
	list, err := os.ReadDir(dir)
	if err != nil && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) {
		return nil, nil
	}
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out, err
}

func (d *differ) entry(ctx context.Context, at string) error {
	is, err := os.Lstat(filepath.Join(d.now, at))
	if err != nil {
		return err
	}
	was, err := os.Lstat(filepath.Join(d.base, at))
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	if err != nil {
		was = nil
	}
	if is.IsDir() && was == nil && d.leadsToMounts(at) { // it was made for what is mounted below
		return d.compare(ctx, at)
	}
	if is.Mode()&(fs.ModeDevice|fs.ModeNamedPipe|fs.ModeSocket) == 0 && !d.same(at, is, was) {
		if err := d.write(at, is); err != nil {
			return err
		}
	}
	if is.IsDir() {
		return d.compare(ctx, at)
	}
	return nil
}

// leadsToMounts says that something is mounted below a folder.
func (d *differ) leadsToMounts(at string) bool {
	for m := range d.skip {
		if strings.HasPrefix(m, "/"+at+"/") {
			return true
		}
	}
	return false
}

// same says that nothing was written there. A folder is as it was where it belongs to whom it did.
func (d *differ) same(at string, is, was fs.FileInfo) bool {
	if was == nil || is.Mode() != was.Mode() {
		return false
	}
	a, b := is.Sys().(*syscall.Stat_t), was.Sys().(*syscall.Stat_t)
	if a.Uid != b.Uid || a.Gid != b.Gid {
		return false
	}
	switch {
	case is.IsDir():
		return true
	case is.Mode()&fs.ModeSymlink != 0:
		one, err := os.Readlink(filepath.Join(d.now, at))
		two, err2 := os.Readlink(filepath.Join(d.base, at))
		return err == nil && err2 == nil && one == two
	}
	if is.Size() != was.Size() || !is.ModTime().Equal(was.ModTime()) {
		return false
	}
	// What was never written to is the image's own file, which nobody can change. Anything else is read: a program may set the time back.
	return a.Ctim == b.Ctim || sameBytes(filepath.Join(d.base, at), filepath.Join(d.now, at))
}

// sameBytes says that two files have the same content; what can't be read counts as another.
func sameBytes(one, two string) bool {
	a, err := os.Open(one)
	if err != nil {
		return false
	}
	defer a.Close()
	b, err := os.Open(two)
	if err != nil {
		return false
	}
	defer b.Close()
	for left, right := make([]byte, 64<<10), make([]byte, 64<<10); ; {
		n, err := io.ReadFull(a, left)
		m, err2 := io.ReadFull(b, right)
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		switch {
		case n != m || !bytes.Equal(left[:n], right[:m]), err != nil && !ended:
			return false
		case ended:
			return err2 != nil
		}
	}
}

func (d *differ) write(at string, is fs.FileInfo) error {
	file := filepath.Join(d.now, at)
	link := ""
	if is.Mode()&fs.ModeSymlink != 0 {
		var err error
		if link, err = os.Readlink(file); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(is, link)
	if err != nil {
		return err
	}
	st := is.Sys().(*syscall.Stat_t)
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname, h.Format = at, int(st.Uid), int(st.Gid), "", "", tar.FormatPAX
	h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
	if is.IsDir() {
		h.Name += "/"
	}
	d.changed++
	if err := d.to.WriteHeader(h); err != nil || !is.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyN(d.to, f, is.Size())
	return err
}

// mountPoints are the places where something else is mounted: none of it is the image's.
func mountPoints() (map[string]bool, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) > 4 && words[4] != "/" {
			out[unescape.Replace(words[4])] = true
		}
	}
	return out, lines.Err()
}

// unescape undoes what the kernel does to names in there.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
