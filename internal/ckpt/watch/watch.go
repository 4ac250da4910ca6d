package watch

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// Bounds of a folder that somebody else fills.
const (
	MaxEntries = 10_000
	MaxFiles   = 100_000 // of one entry
	maxDepth   = 16
)

// turn is how many files of settled folders are looked at again each time: by then one may have been written anew in
// place, which its folder does not show.
const turn = 256

// Config says what to watch.
type Config struct {
	// Dir is the folder, where we read it ourselves; otherwise Folder is.
	Dir    string
	Folder Folder
	Clock  clock.Clock
	// Quiet is how long an entry must be unchanged that was not renamed into place; ten seconds unless told.
	Quiet time.Duration
}

// Folder is how somebody else reads the folder: without following links, and not out of it. List is without order, and
// fails where there are more than most.
type Folder interface {
	Lstat(name string) (fs.FileInfo, error)
	List(name string, most int) ([]fs.FileInfo, error)
}

// DefaultQuiet outlasts the pauses of a writer between two files.
const DefaultQuiet = 10 * time.Second

// File is one of an entry's; Path begins with the entry's name.
type File struct {
	Path     string
	Bytes    int64
	Modified time.Time
	inode    uint64
}

// Entry is a file, or a folder of files, at the top of the watched folder.
type Entry struct {
	Name  string
	Files []File // sorted by path
	Bytes int64
	// Modified is when the newest of its files was.
	Modified time.Time
	// Step is the last number in the name, 0 where there is none.
	Step uint64

	folders []File // the entry itself and those in it, with the time of the last change of their lists
}

// same says that nothing has changed; the name may have.
func (e *Entry) same(o *Entry) bool {
	return slices.EqualFunc(e.Files, o.Files, func(a, b File) bool {
		return a.Path[len(e.Name):] == b.Path[len(o.Name):] && a.same(b)
	})
}

func (f File) same(o File) bool {
	return f.Bytes == o.Bytes && f.Modified.Equal(o.Modified) && f.inode == o.inode
}

// Watcher remembers what it saw. Not safe for concurrent use.
type Watcher struct {
	cfg  Config
	root Folder
	seen map[string]*sighting

	credit int   // files that may be looked at again
	looks  int64 // so far
	stats  int   // of files and folders, for tests
}

type sighting struct {
	entry   Entry
	refused error     // why it can't be kept
	since   time.Time // when it was first seen as it is
	ready   bool      // it was renamed into place
	taken   bool

	still   time.Time // since when its folders are as they are, too
	settled bool      // for a quiet period: only its folders are looked at, until it is its turn
	walked  int64     // in which look it was last read
}

// cost is how many files it takes to read it.
func (s *sighting) cost() int {
	if s.refused != nil {
		return MaxFiles
	}
	return len(s.entry.Files) + len(s.entry.folders)
}

// New opens the folder, which must exist.
func New(cfg Config) (*Watcher, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.Real
	}
	if cfg.Quiet <= 0 {
		cfg.Quiet = DefaultQuiet
	}
	w := &Watcher{cfg: cfg, root: cfg.Folder, seen: map[string]*sighting{}}
	if cfg.Folder != nil {
		if _, err := cfg.Folder.Lstat("."); err != nil {
			return nil, away(err)
		}
		return w, nil
	}
	root, err := os.OpenRoot(cfg.Dir)
	if err != nil {
		return nil, away(err)
	}
	w.root = own{root}
	return w, nil
}

// own is a folder that we read ourselves.
type own struct{ *os.Root }

// List is Folder's.
func (o own) List(name string, most int) ([]fs.FileInfo, error) {
	f, err := o.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(most + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(entries) > most {
		return nil, ErrTooMany
	}
	var infos []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // else it is gone
			infos = append(infos, info)
		}
	}
	return infos, nil
}

// ErrTooMany is what List says of a folder with more files than it may tell.
var ErrTooMany = errors.New("too many files")

// Close lets go of the folder.
func (w *Watcher) Close() error {
	if c, ok := w.root.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

func away(err error) *fault.Error {
	return fault.New(fault.Unavailable, "NoFolder", fault.T("The folder of checkpoints can't be read.", "无法读取检查点目录。")).Because(err)
}

// Look gives the entries that are complete and were not taken, oldest first: by the time of their
// newest file, then by step and name. Entries that are too large are refused by name in err; the others are given beside it.
func (w *Watcher) Look() ([]Entry, error) {
	now := w.cfg.Clock.Now()
	top, err := w.list(".", MaxEntries)
	if err != nil {
		return nil, err
	}
	w.looks++
	w.giveTurns()
	next := make(map[string]*sighting, len(top))
	var complete []Entry
	var refused error
	for _, info := range top {
		s, err := w.sight(info, now)
		if err != nil {
			return nil, err
		}
		next[info.Name()] = s
		refused = errors.Join(refused, s.refused)
		if len(s.entry.Files) > 0 && !s.taken && !unfinished(info.Name()) && (s.ready || now.Sub(s.since) >= w.cfg.Quiet) {
			complete = append(complete, s.entry)
		}
	}
	w.seen = next
	slices.SortFunc(complete, func(a, b Entry) int {
		return cmp.Or(a.Modified.Compare(b.Modified), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Name, b.Name))
	})
	return complete, refused
}

// giveTurns picks the settled folders that are read again, whatever they look like: those that were not for the longest time.
func (w *Watcher) giveTurns() {
	var settled []*sighting
	for _, s := range w.seen {
		if s.settled {
			settled = append(settled, s)
		}
	}
	slices.SortFunc(settled, func(a, b *sighting) int {
		return cmp.Or(cmp.Compare(a.walked, b.walked), cmp.Compare(a.entry.Name, b.entry.Name))
	})
	w.credit += turn
	for _, s := range settled {
		if s.cost() > w.credit {
			return
		}
		w.credit -= s.cost()
		s.settled = false
	}
	w.credit = 0
}

// sight looks at what lies at the top: all of it, or its folders where it is settled.
func (w *Watcher) sight(info fs.FileInfo, now time.Time) (*sighting, error) {
	before := w.seen[info.Name()]
	if before != nil && before.settled && w.unmoved(before, info) {
		return before, nil
	}
	e, err := w.entry(info)
	if err != nil && !fault.Is(err, fault.Invalid) {
		return nil, err
	}
	if err != nil {
		e = Entry{Name: info.Name(), folders: []File{fileOf(info.Name(), info)}}
	}
	s := w.judge(e, now)
	s.refused, s.walked = err, w.looks
	s.settled = info.IsDir() && now.Sub(s.still) >= w.cfg.Quiet
	return s, nil
}

// unmoved says that the lists of an entry's folders are what they were.
func (w *Watcher) unmoved(s *sighting, top fs.FileInfo) bool {
	for i, f := range s.entry.folders {
		info := top
		if i > 0 {
			w.stats++
			var err error
			if info, err = w.root.Lstat(f.Path); err != nil {
				return false
			}
		}
		if !info.IsDir() || !fileOf(f.Path, info).same(f) {
			return false
		}
	}
	return true
}

// judge compares an entry with what was seen before.
func (w *Watcher) judge(e Entry, now time.Time) *sighting {
	if before, ok := w.seen[e.Name]; ok && before.entry.same(&e) {
		if !slices.EqualFunc(before.entry.folders, e.folders, File.same) {
			before.still, before.entry = now, e
		}
		return before
	}
	s := &sighting{entry: e, since: now, still: now}
	for name, before := range w.seen {
		if len(e.Files) > 0 && name != e.Name && unfinished(name) && before.entry.same(&e) {
			s.ready = true
		}
	}
	return s
}

// unfinished says that a name tells of work under way: hidden, or as writers call what they will rename.
func unfinished(name string) bool {
	name = strings.ToLower(name)
	for _, end := range []string{".tmp", ".temp", ".part", ".partial", ".incomplete", ".lock", "~"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "tmp")
}

// Taken says that an entry, as it was given, is kept now: it is given again only once it has changed.
func (w *Watcher) Taken(e Entry) {
	if s := w.seen[e.Name]; s != nil && s.entry.same(&e) {
		s.taken = true
	}
}

// Unchanged says whether an entry is still what Look gave. Ask after it was read, before it counts.
func (w *Watcher) Unchanged(e Entry) (bool, error) {
	info, err := w.root.Lstat(e.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, away(err)
	}
	again, err := w.entry(info)
	if err != nil {
		return false, err
	}
	return again.same(&e), nil
}

func (w *Watcher) list(dir string, most int) ([]fs.FileInfo, error) {
	infos, err := w.root.List(dir, most)
	w.stats += len(infos)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // gone meanwhile
	case errors.Is(err, ErrTooMany):
		return nil, tooMany(dir)
	case err != nil:
		return nil, away(err)
	}
	return infos, nil
}

func tooMany(name string) *fault.Error {
	return fault.New(fault.Invalid, "TooManyFiles", fault.T(
		"%.200q holds too many files, or folders too deep, to be kept as a checkpoint.", "%.200q 中的文件过多或目录过深，无法作为检查点保存。", name))
}

func (w *Watcher) entry(info fs.FileInfo) (Entry, error) {
	e := Entry{Name: info.Name(), Step: stepOf(info.Name())}
	if err := w.add(&e, info.Name(), info, 0); err != nil {
		return Entry{}, err
	}
	slices.SortFunc(e.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return e, nil
}

// add takes regular files and folders; links and pipes are nobody's state.
func (w *Watcher) add(e *Entry, name string, info fs.FileInfo, depth int) error {
	switch {
	case info.Mode().IsRegular():
		if len(e.Files) == MaxFiles {
			return tooMany(e.Name)
		}
		f := fileOf(name, info)
		e.Files = append(e.Files, f)
		e.Bytes += f.Bytes
		if f.Modified.After(e.Modified) {
			e.Modified = f.Modified
		}
	case info.IsDir():
		if depth == maxDepth || len(e.folders) == MaxFiles {
			return tooMany(e.Name)
		}
		e.folders = append(e.folders, fileOf(name, info))
		infos, err := w.list(name, MaxFiles)
		if err != nil {
			return err
		}
		for _, kid := range infos {
			if err := w.add(e, path.Join(name, kid.Name()), kid, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func fileOf(name string, info fs.FileInfo) File {
	f := File{Path: name, Bytes: info.Size(), Modified: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		f.inode = st.Ino
	}
	return f
}

var lastNumber = regexp.MustCompile(`([0-9]{1,18})[^0-9]*$`)

func stepOf(name string) uint64 {
	m := lastNumber.FindStringSubmatch(strings.TrimSuffix(name, path.Ext(name)))
	if m == nil {
		m = lastNumber.FindStringSubmatch(name)
	}
	if m == nil {
		return 0
	}
	n, err := strconv.ParseUint(m[1], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
