package deed

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fermi-cluster/fermi/internal/launch/inside"
)

// What can be asked for.
const (
	OpOpen      = "open"      // Names, each a regular file → a descriptor each, or why not
	OpCreate    = "create"    // Name, a new regular file → its descriptor
	OpLstat     = "lstat"     // Name → Entry
	OpList      = "list"      // Name, a folder → Entries, at most Most
	OpWalk      = "walk"      // everything below the base that is no folder → Entries, in parts
	OpMkdir     = "mkdir"     // Name, with what lies on the way
	OpRename    = "rename"    // Name to To
	OpRemove    = "remove"    // Names; what is not there is removed
	OpRemoveAll = "removeall" // Name and everything below it
	OpLink      = "link"      // Names below Name, each a regular file, to the same names below To: the same bytes without a copy where that can be → why not of each
	OpFind      = "find"      // the program Name, in the folder To with the search path Search → Path
	OpReal      = "real"      // Name, a path → Path without links, Entry
	OpLane      = "lane"      // serve the socket that came along, too
)

// Bounds, for both sides.
const (
	MaxNames   = 64      // of one request, and descriptors of one answer
	MaxPath    = 4096    // bytes of a name
	MaxEntries = 200_000 // of one folder, or one walk
	maxVisits  = 2_000_000
	maxSearch  = 1 << 20
	walkPart   = 512 // entries of one part of a walk
)

// How a file is opened.
const (
	Read  = "r"
	Write = "w"
	Both  = "rw"
)

// Request is one thing to do. Names are bytes: a file's name need not be text.
type Request struct {
	Op string
	// Base is the folder that names begin in and don't lead out of, an absolute path whose links are
	// followed. "": names are absolute paths, and their links are followed.
	Base string
	// Sub is a folder within Base; Make makes it. From then on nothing leads out of Sub.
	Sub  string `json:",omitempty"`
	Make bool   `json:",omitempty"`

	Name   []byte   `json:",omitempty"`
	Names  [][]byte `json:",omitempty"`
	To     []byte   `json:",omitempty"`
	Search string   `json:",omitempty"`
	How    string   `json:",omitempty"`
	Mode   uint32   `json:",omitempty"` // permission bits
	Most   int      `json:",omitempty"`
}

// Entry is what is known of a file without opening it.
type Entry struct {
	Name  []byte
	Mode  fs.FileMode
	Size  int64
	Sec   int64
	Nsec  int64
	Inode uint64
	UID   uint32
}

// Info is the entry as others want it; the name is its last element.
func (e Entry) Info() fs.FileInfo { return info{e} }

type info struct{ e Entry }

func (i info) Name() string       { return path.Base(string(i.e.Name)) }
func (i info) Size() int64        { return i.e.Size }
func (i info) Mode() fs.FileMode  { return i.e.Mode }
func (i info) ModTime() time.Time { return time.Unix(i.e.Sec, i.e.Nsec) }
func (i info) IsDir() bool        { return i.e.Mode.IsDir() }

// Sys is what os gives, as far as it is known.
func (i info) Sys() any { return &syscall.Stat_t{Ino: i.e.Inode, Uid: i.e.UID, Size: i.e.Size} }

// Answer is what came of a request; one with More is followed by another.
type Answer struct {
	Errno   syscall.Errno   `json:",omitempty"`
	Errnos  []syscall.Errno `json:",omitempty"` // of each of Names; 0 has a descriptor
	Entry   *Entry          `json:",omitempty"`
	Entries []Entry         `json:",omitempty"`
	Path    []byte          `json:",omitempty"`
	More    bool            `json:",omitempty"`
	Full    bool            `json:",omitempty"` // there was more than may be told
}

// Special is what opening something that is no regular file comes to.
const Special = syscall.ENXIO

// Escapes is what a link that leads out of the base comes to.
const Escapes = syscall.EXDEV

// Do does it with the rights of the caller. more takes the parts of a long answer; its error ends it. The files are the
// caller's.
func Do(r Request, more func(Answer) error) (Answer, []*os.File) {
	if !r.sound() {
		return Answer{Errno: syscall.EINVAL}, nil
	}
	switch r.Op {
	case OpFind:
		file, err := inside.Find(string(r.Name), string(r.To), r.Search)
		return Answer{Errno: errnoOf(err), Path: []byte(file)}, nil
	case OpReal:
		return real(string(r.Name)), nil
	}
	w, err := r.enter()
	if err != nil {
		return Answer{Errno: errnoOf(err)}, nil
	}
	defer w.close()
	switch r.Op {
	case OpOpen:
		return w.openAll(r)
	case OpCreate:
		return w.create(r)
	case OpWalk:
		return w.walk(r, more), nil
	case OpList:
		return w.list(string(r.Name), r.Most), nil
	case OpLink:
		return w.linkAll(r), nil
	}
	a := Answer{}
	switch r.Op {
	case OpLstat:
		var i fs.FileInfo
		if i, err = w.lstat(string(r.Name)); err == nil {
			e := entryOf(string(r.Name), i)
			a.Entry = &e
		}
	case OpMkdir:
		err = w.root.MkdirAll(string(r.Name), fs.FileMode(r.Mode))
	case OpRename:
		err = w.root.Rename(string(r.Name), string(r.To))
	case OpRemoveAll:
		err = w.root.RemoveAll(string(r.Name))
	case OpRemove:
		for _, name := range r.Names {
			if e := w.root.Remove(string(name)); e != nil && !errors.Is(e, fs.ErrNotExist) && err == nil {
				err = e
			}
		}
	}
	a.Errno = errnoOf(err)
	return a, nil
}

// sound says that a request is one.
func (r *Request) sound() bool {
	plain := func(s string) bool { return len(s) <= MaxPath && !strings.ContainsRune(s, 0) }
	ok := (r.Base == "" || path.IsAbs(r.Base)) && plain(r.Base) && plain(r.Sub) && plain(string(r.Name)) && plain(string(r.To)) &&
		len(r.Names) <= MaxNames && len(r.Search) <= maxSearch && r.Mode&^0o777 == 0 && r.Most >= 0 && r.Most <= MaxEntries
	for _, name := range r.Names {
		ok = ok && plain(string(name))
	}
	switch r.Op {
	case OpFind, OpReal:
		return ok
	case OpOpen, OpList, OpLstat: // also of paths
	case OpCreate, OpWalk, OpMkdir, OpRename, OpRemove, OpRemoveAll, OpLink:
		ok = ok && r.Base != ""
	default:
		return false
	}
	if r.Op == OpOpen {
		ok = ok && (r.How == Read || r.How == Write || r.How == Both)
	}
	return ok
}

// where is the folder of a request; without a root names are paths.
type where struct{ root *os.Root }

func (w *where) close() {
	if w.root != nil {
		_ = w.root.Close()
	}
}

// enter opens the folder that names begin in.
func (r *Request) enter() (*where, error) {
	if r.Base == "" {
		return &where{}, nil
	}
	root, err := openRoot(os.OpenFile(r.Base, folderFlags, 0))
	if err != nil || r.Sub == "" {
		return &where{root}, err
	}
	defer root.Close()
	if r.Make {
		if err := root.MkdirAll(r.Sub, 0o755); err != nil {
			return nil, err
		}
	}
	inner, err := openRoot(root.OpenFile(r.Sub, folderFlags, 0))
	return &where{inner}, err
}

// folderFlags open a folder and nothing else: a pipe in its place would be waited for.
const folderFlags = os.O_RDONLY | syscall.O_DIRECTORY | syscall.O_NONBLOCK

// openRoot makes a root of an open folder.
func openRoot(f *os.File, err error) (*os.Root, error) {
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return os.OpenRoot("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
}

func (w *where) openFile(name string, flags int, mode fs.FileMode) (*os.File, error) {
	if w.root == nil {
		return os.OpenFile(name, flags, mode)
	}
	return w.root.OpenFile(name, flags, mode)
}

func (w *where) lstat(name string) (fs.FileInfo, error) {
	if w.root == nil {
		return os.Lstat(name)
	}
	return w.root.Lstat(name)
}

// openAll opens what is there already, regular files alone.
func (w *where) openAll(r Request) (a Answer, files []*os.File) {
	flags := map[string]int{Read: os.O_RDONLY, Write: os.O_WRONLY, Both: os.O_RDWR}[r.How] | syscall.O_NONBLOCK
	for _, name := range r.Names {
		f, err := regular(w.openFile(string(name), flags, 0))
		if err == nil {
			files = append(files, f)
		}
		a.Errnos = append(a.Errnos, errnoOf(err))
	}
	return a, files
}

func regular(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	if i, err := f.Stat(); err != nil || !i.Mode().IsRegular() {
		_ = f.Close()
		if err == nil {
			err = Special
		}
		return nil, err
	}
	return f, nil
}

// create makes a file that is not there yet, and the folders on the way.
func (w *where) create(r Request) (Answer, []*os.File) {
	name := string(r.Name)
	if dir := path.Dir(name); dir != "." {
		if err := w.root.MkdirAll(dir, 0o755); err != nil {
			return Answer{Errno: errnoOf(err)}, nil
		}
	}
	f, err := regular(w.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, fs.FileMode(r.Mode)))
	if err != nil {
		return Answer{Errno: errnoOf(err)}, nil
	}
	return Answer{}, []*os.File{f}
}

// list tells what a folder holds, without order.
func (w *where) list(name string, most int) Answer {
	f, err := w.openFile(name, folderFlags, 0)
	if err != nil {
		return Answer{Errno: errnoOf(err)}
	}
	defer f.Close()
	found, err := f.ReadDir(most + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return Answer{Errno: errnoOf(err)}
	}
	a := Answer{Full: len(found) > most}
	for _, d := range found[:min(len(found), most)] {
		if i, err := d.Info(); err == nil { // else it is gone
			a.Entries = append(a.Entries, entryOf(d.Name(), i))
		}
	}
	return a
}

// walk tells everything below the base but folders, in parts. Links are told, not followed.
func (w *where) walk(r Request, more func(Answer) error) Answer {
	part, told, visits := []Entry(nil), 0, 0
	full := false
	err := fs.WalkDir(w.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if visits++; visits > maxVisits {
			full = true
			return fs.SkipAll
		}
		if visits%(16*walkPart) == 0 || len(part) >= walkPart { // also where nothing is found: we live
			if err := more(Answer{Entries: part, More: true}); err != nil {
				return err
			}
			part = nil
		}
		switch {
		case err != nil && d != nil && d.IsDir():
			return fs.SkipDir
		case err != nil || d.IsDir(): // it went away meanwhile
			return nil
		case told >= r.Most:
			full = true
			return fs.SkipAll
		}
		if i, err := d.Info(); err == nil && len(name) <= MaxPath {
			part, told = append(part, entryOf(name, i)), told+1
		}
		return nil
	})
	return Answer{Errno: errnoOf(err), Entries: part, Full: full}
}

// real says where a path leads.
func real(name string) Answer {
	const oPath = 0x200000 // O_PATH, the same on every architecture
	f, err := os.OpenFile(name, oPath|syscall.O_NONBLOCK, 0)
	if err != nil {
		return Answer{Errno: errnoOf(err)}
	}
	defer f.Close()
	to, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	if err != nil {
		return Answer{Errno: errnoOf(err)}
	}
	i, err := f.Stat()
	if err != nil {
		return Answer{Errno: errnoOf(err)}
	}
	e := entryOf(path.Base(to), i)
	return Answer{Path: []byte(to), Entry: &e}
}

func entryOf(name string, i fs.FileInfo) Entry {
	e := Entry{Name: []byte(name), Mode: i.Mode(), Size: i.Size(), Sec: i.ModTime().Unix(), Nsec: int64(i.ModTime().Nanosecond())}
	if st, ok := i.Sys().(*syscall.Stat_t); ok {
		e.Inode, e.UID = st.Ino, st.Uid
	}
	return e
}

// errnoOf is the number of an error; what has none is a link that os.Root did not follow out of its folder.
func errnoOf(err error) syscall.Errno {
	var n syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &n):
		return n
	case errors.Is(err, fs.ErrNotExist):
		return syscall.ENOENT
	}
	return Escapes
}
