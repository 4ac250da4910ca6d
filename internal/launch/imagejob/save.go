package imagejob

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/fermi-cluster/fermi/api/v1/image"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// A save compares two file systems that it sees: the environment's, which is the root here, and the bare image at Base. What differs becomes one
// more layer. How the code differs from reading the folder that was written to: only the machine's root can read the marks in there, and they
// say where a folder came from, not what is in it.

// Base is where the bare image is found, and Digest the variable that says which one it is.
const (
	Base   = "/run/fermi-base"
	Digest = "FERMI_IMAGE_DIGEST"
)

func save(ctx context.Context, base, reference string) (*image.ImageFound, error) {
	from, err := parse(base)
	if err != nil {
		return nil, err
	}
	to, err := name.NewTag(reference)
	if err != nil {
		return nil, fault.New(fault.Invalid, "BadImage", fault.T("%q is not where an image can be pushed.", "%q 不是可推送的镜像名称。", reference)).Because(err)
	}
	file, err := os.CreateTemp("", "layer-*.tar")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	mounts, err := mountPoints()
	if err != nil {
		return nil, err
	}
	out := bufio.NewWriterSize(file, 1<<20)
	d := &differ{to: tar.NewWriter(out), base: Base, now: "/", skip: mounts}
	if err = d.compare(ctx, "."); err == nil {
		err = errors.Join(d.to.Close(), out.Flush(), file.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("read what was written: %w", err)
	}
	fmt.Printf("%d changed, %d removed\n", d.changed, d.removed)
	pinned := from.Context().Digest(os.Getenv(Digest))
	var made v1.Image
	err = patiently(ctx, pinned, func() error {
		under, err := remote.Image(pinned, account(ctx)...)
		if err != nil {
			return err
		}
		layer, err := tarball.LayerFromFile(file.Name())
		if err != nil {
			return err
		}
		made, err = mutate.Append(under, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: time.Now().UTC()}, CreatedBy: "fermi env save", Comment: "over " + pinned.Name()}})
		return err
	})
	if err != nil {
		return nil, err
	}
	fmt.Println("pushing", reference)
	if err := patiently(ctx, to, func() error { return remote.Write(to, made, account(ctx)...) }); err != nil {
		if fault.ReasonOf(err) == "ImageDenied" || fault.ReasonOf(err) == "NoSuchImage" {
			return nil, pushFault(to, "denied: "+err.Error(), err)
		}
		return nil, err
	}
	digest, err := made.Digest()
	if err != nil {
		return nil, err
	}
	found := &image.ImageFound{Reference: reference, Digest: digest.String()}
	return found, describe(found, made)
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
			if err := d.to.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(dir, ".wh."+n), Mode: 0o600}); err != nil {
				return err
			}
		}
	}
	for _, n := range after {
		if at := path.Join(dir, n); !d.skip["/"+at] && !strings.HasPrefix(n, ".wh.") {
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
	return is.Size() == was.Size() && is.ModTime().Equal(was.ModTime())
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
