package watch

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fermi-cluster/fermi/internal/ckpt/form"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/pattern"
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
	// Quiet is how long an entry must be unchanged that was not renamed into place and whose format does not tell; ten
	// seconds unless told.
	Quiet time.Duration
	// Writers are the files, by inode, that are open for writing, and whether all who can write there are known. It is asked
	// only while something is new. nil: nobody knows.
	Writers func() (open map[uint64]bool, all bool)
	// Still says that nobody writes there any more, nor removes anything.
	Still bool
	// Ranks is how many processes save together; nil: not known.
	Ranks func() int
}

// Folder is how somebody else reads the folder: without following links, and not out of it. List is without order, and
// fails where there are more than most.
type Folder interface {
	Lstat(name string) (fs.FileInfo, error)
	List(name string, most int) ([]fs.FileInfo, error)
	// Open opens a regular file for reading, and waits for nobody.
	Open(name string) (*os.File, error)
}

// DefaultQuiet outlasts the pauses of a writer between two files.
const DefaultQuiet = 10 * time.Second

// closedFor is how long one file must be unchanged that nobody has open for writing any more.
const closedFor = time.Second

// judged is how many entries are judged by their format in one look; the others wait for the next.
const judged = 64

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
	// Step is the last number in the name, or what its format says where there is none; 0: neither.
	Step uint64
	// Form is its format, Whole that the format shows it to be complete; otherwise it was quiet, or moved into place.
	Form  string
	Whole bool
	// Mark is the file beside it that names it, where its library wants one.
	Mark form.Mark

	folder  bool
	folders []File // the entry itself and those in it, with the time of the last change of their lists
}

// same says that nothing has changed; the name may have.
func (e *Entry) same(o *Entry) bool {
	return slices.EqualFunc(e.Files, o.Files, func(a, b File) bool {
		return a.Path[len(e.Name):] == b.Path[len(o.Name):] && a.same(b)
	})
}

// lessened says that a folder of it was changed after the last of its files: one was moved there, or removed.
func (e *Entry) lessened() bool {
	return slices.ContainsFunc(e.folders, func(f File) bool { return f.Modified.After(e.Modified) })
}

func (f File) same(o File) bool {
	return f.Bytes == o.Bytes && f.Modified.Equal(o.Modified) && f.inode == o.inode
}

// Watcher remembers what it saw. Not safe for concurrent use.
type Watcher struct {
	cfg  Config
	root Folder
	seen map[string]*sighting

	marks   form.Marks
	pending []Entry
	fresh   bool // something may become complete soon

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
	form    form.Judgement
	judged  bool // form is known for good, as long as it does not change
	done    bool // it is complete

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

// Open is Folder's.
func (o own) Open(name string) (*os.File, error) {
	f, err := o.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fs.ErrInvalid, err, f.Close())
	}
	return f, nil
}

// List is Folder's.
func (o own) List(name string, most int) ([]fs.FileInfo, error) {
	f, err := o.Root.Open(name)
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

// top is an entry's files at the top: most have one.
type top struct {
	name  string
	infos []fs.FileInfo
}

func (t *top) isFolder() bool { return len(t.infos) == 1 && t.infos[0].IsDir() }

// tops are the entries of a folder: files that belong together are one, and those that only name others are none.
func (w *Watcher) tops(infos []fs.FileInfo) []*top {
	w.marks = form.Marks{}
	names := map[string]bool{}
	for _, info := range infos {
		names[info.Name()] = true
	}
	byName := map[string]*top{}
	var out []*top
	for _, info := range infos {
		name := info.Name()
		if info.Mode().IsRegular() {
			if slices.Contains(form.MarkNames, name) {
				if text := form.ReadMark(source{w.root}, name, info.Size()); form.IsMark(name, text, func(n string) bool { return names[n] }) {
					w.marks[name] = text
					continue
				}
			}
			if stem := form.Stem(name); !names[stem] {
				name = stem
			}
		}
		t := byName[name]
		if t == nil {
			t = &top{name: name}
			byName[name], out = t, append(out, t)
		}
		t.infos = append(t.infos, info)
	}
	return out
}

// source reads what is judged.
type source struct{ from Folder }

// ReadAt is form.Source's.
func (s source) ReadAt(name string, p []byte, at int64) (int, error) {
	f, err := s.from.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.ReadAt(p, at)
}

// Look gives the entries that are complete and were not taken, oldest first: by the time of their
// newest file, then by step and name. Entries that are too large are refused by name in err; the others are given beside it.
func (w *Watcher) Look() ([]Entry, error) {
	now := w.cfg.Clock.Now()
	infos, err := w.list(".", MaxEntries)
	if err != nil {
		return nil, err
	}
	w.looks++
	w.giveTurns()
	next := make(map[string]*sighting, len(infos))
	before := w.marks
	list := w.tops(infos)
	var refused error
	var open []*sighting // what is not known to be complete
	for _, t := range list {
		s, err := w.sight(t, now)
		if err != nil {
			return nil, err
		}
		next[t.name] = s
		refused = errors.Join(refused, s.refused)
		if len(s.entry.Files) > 0 && !s.done && !form.Unfinished(t.name) {
			open = append(open, s)
		}
	}
	w.seen = next
	w.settle(open, now, !maps.Equal(before, w.marks))
	var complete []Entry
	for _, s := range next {
		if s.done && !s.taken {
			complete = append(complete, s.given())
		}
	}
	slices.SortFunc(complete, inOrder)
	return complete, refused
}

func inOrder(a, b Entry) int {
	return cmp.Or(a.Modified.Compare(b.Modified), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Name, b.Name))
}

// given is the entry with what its format says.
func (s *sighting) given() Entry {
	e := s.entry
	e.Form, e.Whole, e.Mark = s.form.Form, s.form.Verdict == form.Whole, s.form.Mark
	e.Step = cmp.Or(e.Step, s.form.Step)
	return e
}

// settle finds out which of the entries are complete by now, the newest first.
func (w *Watcher) settle(open []*sighting, now time.Time, marked bool) {
	slices.SortFunc(open, func(a, b *sighting) int { return -inOrder(a.entry, b.entry) })
	var writers func() (map[uint64]bool, bool)
	if w.cfg.Writers != nil {
		writers = sync.OnceValues(w.cfg.Writers)
	} else {
		writers = func() (map[uint64]bool, bool) { return nil, false }
	}
	w.pending, w.fresh = nil, false
	left := judged
	for _, s := range open {
		if !s.judged || marked {
			if left == 0 {
				w.fresh = true
				continue
			}
			left--
			w.judgeForm(s, now)
		}
		quiet := now.Sub(s.since)
		w.fresh = w.fresh || quiet < w.cfg.Quiet
		if s.form.Verdict == form.Partial {
			continue
		}
		held, all := writers()
		if slices.ContainsFunc(s.entry.Files, func(f File) bool { return held[f.inode] }) {
			continue
		}
		need := w.cfg.Quiet
		switch {
		case s.form.Verdict == form.Whole && s.entry.lessened() && !w.cfg.Still:
			need = min(need, closedFor) // it may be on its way out, the last file first
		case s.form.Verdict == form.Whole || s.ready:
			need = 0
		case all && !s.entry.folder:
			need = min(need, closedFor)
		}
		if s.done = quiet >= need; !s.done && quiet > 0 && all {
			w.pending = append(w.pending, s.given())
		}
	}
}

// judgeForm asks what the format says. That is known for good when it says whole, or when nothing has changed for long:
// what changes twice within a tick of the clock looks as if it had not.
func (w *Watcher) judgeForm(s *sighting, now time.Time) {
	files := make([]form.File, len(s.entry.Files))
	for i, f := range s.entry.Files {
		files[i] = form.File{Path: f.Path, Bytes: f.Bytes}
	}
	ranks := 0
	if w.cfg.Ranks != nil {
		ranks = w.cfg.Ranks()
	}
	s.form = form.Judge(source{w.root}, s.entry.Name, s.entry.folder, files, w.marks, ranks)
	s.judged = s.form.Verdict == form.Whole || now.Sub(s.since) >= w.cfg.Quiet
}

// Pending are entries that may be complete, and that nobody is known to write to: their format does not tell, and they
// were not quiet for long enough. Of the last Look.
func (w *Watcher) Pending() []Entry { return w.pending }

// Fresh says that something may become complete soon: it is worth looking again at once.
func (w *Watcher) Fresh() bool { return w.fresh }

// Replaced says that an entry is gone and a newer one is there, or on its way: so scripts keep their last few.
func (w *Watcher) Replaced(e Entry) bool {
	if w.seen[e.Name] != nil {
		return false
	}
	for _, s := range w.seen {
		if s.entry.Modified.After(e.Modified) && s.refused == nil {
			return true
		}
	}
	return false
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
func (w *Watcher) sight(t *top, now time.Time) (*sighting, error) {
	before := w.seen[t.name]
	if before != nil && before.settled && len(t.infos) == 1 && w.unmoved(before, t.infos[0]) {
		return before, nil
	}
	e, err := w.entry(t)
	if err != nil && !fault.Is(err, fault.Invalid) {
		return nil, err
	}
	if err != nil {
		e = Entry{Name: t.name, folder: true, folders: []File{fileOf(t.name, t.infos[0])}}
	}
	s := w.judge(e, now)
	s.refused, s.walked = err, w.looks
	s.settled = t.isFolder() && now.Sub(s.still) >= w.cfg.Quiet
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
		if len(e.Files) > 0 && name != e.Name && form.Unfinished(name) && before.entry.same(&e) {
			s.ready = true
		}
	}
	return s
}

// Taken says that an entry, as it was given, is kept now: it is given again only once it has changed.
func (w *Watcher) Taken(e Entry) {
	if s := w.seen[e.Name]; s != nil && s.entry.same(&e) {
		s.taken = true
	}
}

// Unchanged says whether an entry is still what Look gave. Ask after it was read, before it counts.
func (w *Watcher) Unchanged(e Entry) (bool, error) {
	again, err := w.Again(e)
	return err == nil && again.same(&e), err
}

// Again reads an entry anew; one that is gone has no files.
func (w *Watcher) Again(e Entry) (Entry, error) {
	t := top{name: e.Name}
	names := []string{e.Name}
	if !e.folder {
		names = nil
		for _, f := range e.Files {
			names = append(names, f.Path)
		}
	}
	for _, name := range names {
		info, err := w.root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return Entry{Name: e.Name}, nil
		}
		if err != nil {
			return Entry{}, away(err)
		}
		t.infos = append(t.infos, info)
	}
	again, err := w.entry(&t)
	again.Step, again.Form, again.Whole, again.Mark = e.Step, e.Form, e.Whole, e.Mark
	return again, err
}

// Alike says that two entries have files of the same names, lengths and times: one is a link or a copy of the other.
func (e *Entry) Alike(o *Entry) bool {
	return slices.EqualFunc(e.Files, o.Files, func(a, b File) bool {
		return a.Path == b.Path && a.Bytes == b.Bytes && a.Modified.Equal(b.Modified)
	})
}

// Within says that an entry has nothing that the other has not: it is what is left of it.
func (e *Entry) Within(o *Entry) bool {
	return len(e.Files) <= len(o.Files) && !slices.ContainsFunc(e.Files, func(f File) bool {
		return !slices.ContainsFunc(o.Files, func(g File) bool { return f.Path == g.Path && f.Bytes == g.Bytes && f.Modified.Equal(g.Modified) })
	})
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

func (w *Watcher) entry(t *top) (Entry, error) {
	e := Entry{Name: t.name, Step: stepOf(t.name), folder: t.isFolder()}
	for _, info := range t.infos {
		if err := w.add(&e, info.Name(), info, 0); err != nil {
			return Entry{}, err
		}
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

var lastNumber = pattern.New(`([0-9]{1,18})[^0-9]*$`)

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
