package homecopy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/api/v1/asset"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	// folder is ours in a version; a home's own of that name is left out.
	folder = ".fermi-home"
	index  = folder + "/index"
	odd    = folder + "/odd"
	over   = folder + "/layer.tar"
	image  = folder + "/image"
)

// maxFiles is how many files a home may have: the list and a layer need room too.
const maxFiles = asset.MaxFiles - 3

// What is written here is devenv.HomeFormat.

// entry is one line of the list. Paths are bytes: names need not be text.
type entry struct {
	Path []byte      `json:"path"`
	Mode fs.FileMode `json:"mode,omitempty"` // type and permissions
	Time int64       `json:"time,omitempty"` // nanoseconds since 1970
	Link []byte      `json:"link,omitempty"`
	At   string      `json:"at,omitempty"` // in the version, of a file that lies elsewhere than at its path
}

// Copy is a home as files of a version.
type Copy struct {
	Files   []asset.File // in order
	Skipped []string     // what is no file, folder or link
	root    *os.Root
	list    []byte
	odd     map[string]string // in the version → in the home
	over    Layer
}

// Layer is what was written over the image of a home's environment.
type Layer struct {
	Image   string // its digest
	Archive string // the file that has what was written, as layer.Diff writes it
}

// With adds a layer to a home that was scanned.
func (c *Copy) With(l Layer) error {
	info, err := os.Stat(l.Archive)
	if err != nil {
		return err
	}
	c.over = l
	c.Files = append(c.Files, asset.File{Path: over, Size: info.Size()}, asset.File{Path: image, Size: int64(len(l.Image))})
	slices.SortFunc(c.Files, func(a, b asset.File) int { return asset.Compare(a.Path, b.Path) })
	return nil
}

// Scan lists a home. What its owner can't read is fault Conflict: a copy without it would be none. The caller closes what it found.
func Scan(dir string) (*Copy, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	c := &Copy{root: root, odd: map[string]string{}}
	if err := c.scan(dir); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return c, nil
}

func (c *Copy) scan(dir string) error {
	var list bytes.Buffer
	lines := json.NewEncoder(&list)
	var unread []string
	err := fs.WalkDir(c.root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && errors.Is(err, fs.ErrPermission):
			unread = append(unread, p)
			return fs.SkipDir
		case err != nil:
			return err
		case p == "." || p == "lost+found" && d.IsDir():
			return nil
		case p == folder:
			c.Skipped = append(c.Skipped, p)
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		e := entry{Path: []byte(p), Mode: info.Mode().Type() | info.Mode().Perm(), Time: info.ModTime().UnixNano()}
		switch {
		case d.IsDir():
		case d.Type()&fs.ModeSymlink != 0:
			to, err := c.root.Readlink(p)
			if err != nil {
				return err
			}
			e.Link = []byte(to)
		case d.Type().IsRegular():
			if unix.Faccessat(unix.AT_FDCWD, path.Join(dir, p), unix.R_OK, 0) != nil {
				unread = append(unread, p)
				return nil
			}
			if len(c.Files) == maxFiles {
				return fault.New(fault.Conflict, "TooManyFiles", fault.T("The home has more than %d files.", "主目录的文件超过 %d 个。", maxFiles))
			}
			at := p
			if asset.CheckPath(p) != nil {
				at = odd + "/" + strconv.Itoa(len(c.odd))
				e.At, c.odd[at] = at, p
			}
			c.Files = append(c.Files, asset.File{Path: at, Size: info.Size(), Exec: info.Mode()&0o100 != 0})
		default:
			c.Skipped = append(c.Skipped, p)
			return nil
		}
		return lines.Encode(e)
	})
	if err != nil {
		return err
	}
	if len(unread) > 0 {
		return fault.New(fault.Conflict, "Unreadable", fault.T("%d [file|files] of the home can't be read by its owner, such as %.200q.", "主目录中有 %d 个文件无法被其所有者读取，例如 %.200q。", len(unread), unread[0])).
			WithHint(fault.T("They belong to another user of its image, or nobody may read them: start the environment, and give them to yourself (chown, chmod) or delete them.",
				"它们属于镜像中的其他用户，或不允许读取：请启动环境，用 chown、chmod 改为自己可读，或将其删除。"))
	}
	c.list = list.Bytes()
	c.Files = append(c.Files, asset.File{Path: index, Size: int64(len(c.list))})
	slices.SortFunc(c.Files, func(a, b asset.File) int { return asset.Compare(a.Path, b.Path) })
	return nil
}

// Open opens one of the files.
func (c *Copy) Open(f asset.File) (io.ReadCloser, error) {
	text := func(b []byte) (io.ReadCloser, error) {
		return struct {
			io.ReadSeeker
			io.Closer
		}{bytes.NewReader(b), io.NopCloser(nil)}, nil
	}
	switch {
	case f.Path == index:
		return text(c.list)
	case f.Path == image:
		return text([]byte(c.over.Image))
	case f.Path == over:
		return os.Open(c.over.Archive)
	}
	at := f.Path
	if strings.HasPrefix(at, odd+"/") {
		at = c.odd[at]
	}
	return c.root.Open(at)
}

// Close lets go of the home.
func (c *Copy) Close() error { return c.root.Close() }
