package steward

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/ckpt/watch"
	"github.com/fermi-cluster/fermi/internal/launch/deed"
)

// Folder is a folder of the tenant's; nothing that is asked of it leads out of it. Its methods are those of os.Root.
type Folder struct {
	s     *Steward
	base  string
	sub   string
	which isQuick
}

// In is the folder at an absolute path.
func (s *Steward) In(base string) *Folder { return &Folder{s: s, base: base} }

// Memory is the folder of the ranks' states: what is asked of it does not wait for what is asked of other folders.
func (s *Steward) Memory(base string) *Folder { return &Folder{s: s, base: base, which: quick} }

// Below is a folder within it, whatever links lie on the way.
func (f *Folder) Below(sub string) *Folder {
	return &Folder{f.s, f.base, path.Join(f.sub, sub), f.which}
}

func (f *Folder) request(op, name string) deed.Request {
	sub := f.sub
	if sub == "." {
		sub = ""
	}
	return deed.Request{Op: op, Base: f.base, Sub: sub, Name: []byte(name)}
}

// done is a request whose answer says nothing more.
func (f *Folder) done(r deed.Request) error {
	_, files, err := f.s.do(f.which, r, nil)
	closeAll(files)
	return err
}

// Make makes it, within what it is below of.
func (f *Folder) Make() error {
	r := f.request(deed.OpLstat, ".")
	r.Make = true
	return f.done(r)
}

// OpenAll opens files for reading, or for both; each has an error or is the caller's. At most deed.MaxNames.
func (f *Folder) OpenAll(names []string, write bool) ([]*os.File, []error) {
	r := f.request(deed.OpOpen, "")
	r.Name, r.How = nil, deed.Read
	if write {
		r.How = deed.Both
	}
	for _, name := range names {
		r.Names = append(r.Names, []byte(name))
	}
	out, errs := make([]*os.File, len(names)), make([]error, len(names))
	a, files, err := f.s.do(f.which, r, nil)
	for i, name := range names {
		switch {
		case err != nil:
			errs[i] = err
		case a.Errnos[i] != 0:
			errs[i] = &fs.PathError{Op: "open", Path: path.Join(f.base, f.sub, name), Err: a.Errnos[i]}
		default:
			out[i], files = files[0], files[1:]
		}
	}
	return out, errs
}

// Open opens a regular file for reading.
func (f *Folder) Open(name string) (*os.File, error) {
	files, errs := f.OpenAll([]string{name}, false)
	return files[0], errs[0]
}

// Change opens a regular file for reading and writing.
func (f *Folder) Change(name string) (*os.File, error) {
	files, errs := f.OpenAll([]string{name}, true)
	return files[0], errs[0]
}

// OpenFile opens for reading or, with os.O_CREATE and os.O_EXCL, makes a new file and the folders on the way.
func (f *Folder) OpenFile(name string, flag int, mode fs.FileMode) (*os.File, error) {
	if flag&os.O_CREATE == 0 {
		return f.Open(name)
	}
	if flag&os.O_EXCL == 0 {
		return nil, &fs.PathError{Op: "create", Path: name, Err: unix.EINVAL}
	}
	r := f.request(deed.OpCreate, name)
	r.Mode = uint32(mode.Perm())
	_, files, err := f.s.do(f.which, r, nil)
	if err != nil {
		return nil, err
	}
	return files[0], nil
}

// Replace makes a file anew, whatever lay there.
func (f *Folder) Replace(name string, mode fs.FileMode) (*os.File, error) {
	file, err := f.OpenFile(name, os.O_CREATE|os.O_EXCL, mode)
	if !errors.Is(err, fs.ErrExist) {
		return file, err
	}
	if err := f.RemoveAll(name); err != nil {
		return nil, err
	}
	return f.OpenFile(name, os.O_CREATE|os.O_EXCL, mode)
}

// Lstat tells of a file without following a link.
func (f *Folder) Lstat(name string) (fs.FileInfo, error) {
	a, _, err := f.s.do(f.which, f.request(deed.OpLstat, name), nil)
	if err != nil {
		return nil, err
	}
	if a.Entry == nil {
		return nil, &fs.PathError{Op: "lstat", Path: name, Err: unix.EIO}
	}
	return a.Entry.Info(), nil
}

// errTooMany says that an answer had no end.
var errTooMany = errors.New("more files than were asked for")

// List tells what a folder within it holds, without order; watch.ErrTooMany beyond most.
func (f *Folder) List(name string, most int) ([]fs.FileInfo, error) {
	r := f.request(deed.OpList, name)
	r.Most = most
	a, _, err := f.s.do(f.which, r, nil)
	if err != nil {
		return nil, err
	}
	if a.Full {
		return nil, watch.ErrTooMany
	}
	var out []fs.FileInfo
	for _, e := range a.Entries {
		if e.Info().Name() == string(e.Name) { // a plain name
			out = append(out, e.Info())
		}
	}
	return out, nil
}

// Walk tells everything below it but folders, by its path, and perhaps twice; full: there was more than most.
func (f *Folder) Walk(most int, see func(name string, i fs.FileInfo)) (full bool, err error) {
	r := f.request(deed.OpWalk, ".")
	r.Most = most
	told := 0
	take := func(a deed.Answer) error {
		for _, e := range a.Entries {
			if told++; told > 2*most { // asked twice where the steward was started anew
				return errTooMany
			}
			if name := string(e.Name); fs.ValidPath(name) || validBytes(name) {
				see(name, e.Info())
			}
		}
		return nil
	}
	a, _, err := f.s.do(f.which, r, take)
	if err == nil {
		err = take(a)
	}
	return a.Full, err
}

// validBytes is fs.ValidPath of a name that is no text.
func validBytes(name string) bool {
	return name != "" && name[0] != '/' && path.Clean(name) == name && name != ".." && len(name) > 2 && name[:3] != "../"
}

// MkdirAll makes a folder and those on the way.
func (f *Folder) MkdirAll(name string, mode fs.FileMode) error {
	r := f.request(deed.OpMkdir, name)
	r.Mode = uint32(mode.Perm())
	return f.done(r)
}

// Rename moves a file within it.
func (f *Folder) Rename(from, to string) error {
	r := f.request(deed.OpRename, from)
	r.To = []byte(to)
	return f.done(r)
}

// Link gives files below from the same names below to, as links or copies: they stay when the first are removed. It ends
// with the first that can't be linked.
func (f *Folder) Link(from, to string, names []string) error {
	for part := range slices.Chunk(names, deed.MaxNames) {
		r := f.request(deed.OpLink, from)
		r.To = []byte(to)
		for _, name := range part {
			r.Names = append(r.Names, []byte(name))
		}
		a, files, err := f.s.do(f.which, r, nil)
		closeAll(files)
		if err != nil {
			return err
		}
		for i, name := range part {
			if a.Errnos[i] != 0 {
				return &fs.PathError{Op: "link", Path: name, Err: a.Errnos[i]}
			}
		}
	}
	return nil
}

// RemoveAll removes a file, or a folder with everything in it.
func (f *Folder) RemoveAll(name string) error { return f.done(f.request(deed.OpRemoveAll, name)) }

// Remove removes files; one that is not there is removed.
func (f *Folder) Remove(names ...string) error {
	r := f.request(deed.OpRemove, "")
	r.Name = nil
	for _, name := range names {
		r.Names = append(r.Names, []byte(name))
	}
	return f.done(r)
}

// Find is what a shell does in dir with this search path; an error is an errno, and file what it is about.
func (s *Steward) Find(name, dir, search string) (file string, err error) {
	a, _, err := s.do(slow, deed.Request{Op: deed.OpFind, Name: []byte(name), To: []byte(dir), Search: search}, nil)
	return string(a.Path), err
}

// Real is a path without links, and what lies there.
func (s *Steward) Real(file string) (string, fs.FileInfo, error) {
	a, _, err := s.do(slow, deed.Request{Op: deed.OpReal, Name: []byte(file)}, nil)
	if err == nil && a.Entry == nil {
		err = unix.EIO
	}
	if err != nil {
		return "", nil, err
	}
	return string(a.Path), a.Entry.Info(), nil
}

// Text reads the beginning of a regular file, links followed.
func (s *Steward) Text(file string, most int) ([]byte, error) {
	a, files, err := s.do(slow, deed.Request{Op: deed.OpOpen, Names: [][]byte{[]byte(file)}, How: deed.Read}, nil)
	if err != nil {
		return nil, err
	}
	if a.Errnos[0] != 0 {
		return nil, &fs.PathError{Op: "open", Path: file, Err: a.Errnos[0]}
	}
	defer files[0].Close()
	return io.ReadAll(io.LimitReader(files[0], int64(most)))
}

// Names are those in a folder, links followed, at most so many.
func (s *Steward) Names(dir string, most int) ([]string, error) {
	a, _, err := s.do(slow, deed.Request{Op: deed.OpList, Name: []byte(dir), Most: most}, nil)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range a.Entries {
		out = append(out, string(e.Name))
	}
	return out, nil
}
