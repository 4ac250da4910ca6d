// Package faultfs is a file system in memory that loses what a power cut would lose.
//
// Place: layer 3, for tests only: a folder.Files. Promise: what was synced, and whose name was synced,
// is there after PowerOff; of everything else any mixture may be, torn anywhere. Enemies: tests that
// pass because the machine under them never lost power.
package faultfs

import (
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob/folder"
)

// FS is the file system; its root is ".". Safe for concurrent use.
type FS struct {
	mu   sync.Mutex
	root *inode
	rng  *rand.Rand

	ops   int           // changes asked for so far
	fails map[int]error // of the change with this number, once
	dead  int           // the change from which on nothing works; 0: never
	room  int           // bytes that still fit; below 0: without end
	clock func() time.Time
}

// inode is a file or folder: as the running system sees it, and as the disk has it.
type inode struct {
	dir            bool
	data, synced   []byte
	names, durable map[string]*inode
	mod            time.Time
}

func newDir() *inode {
	return &inode{dir: true, names: map[string]*inode{}, durable: map[string]*inode{}}
}

// New makes an empty file system; clock gives the times of files.
func New(rng *rand.Rand, clock func() time.Time) *FS {
	return &FS{root: newDir(), rng: rng, clock: clock, room: -1, fails: map[int]error{}}
}

// Ops counts the changes asked for so far.
func (f *FS) Ops() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ops
}

// DieAt lets the change of this number, and everything after it, fail: the process was killed.
func (f *FS) DieAt(op int) { f.mu.Lock(); f.dead = op; f.mu.Unlock() }

// FailAt lets the change of this number fail once.
func (f *FS) FailAt(op int, err error) { f.mu.Lock(); f.fails[op] = err; f.mu.Unlock() }

// Room is how many bytes still fit; below 0 there is no end.
func (f *FS) Room(bytes int) { f.mu.Lock(); f.room = bytes; f.mu.Unlock() }

// Restart lets things work again; what was seen last is what is there, as after a kill.
func (f *FS) Restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = 0
}

// PowerOff loses what was not synced, in part or as a whole, and restarts.
func (f *FS) PowerOff() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = 0
	f.lose(f.root, map[*inode]bool{})
}

func (f *FS) lose(n *inode, seen map[*inode]bool) {
	if seen[n] {
		return
	}
	seen[n] = true
	if !n.dir {
		if !slices.Equal(n.data, n.synced) {
			n.data = f.torn(n)
			n.synced = slices.Clone(n.data)
		}
		return
	}
	after := map[string]*inode{}
	for _, name := range sortedNames(n.names, n.durable) {
		is, was := n.names[name], n.durable[name]
		if is != was && f.rng.IntN(2) == 0 {
			is = was
		}
		if is != nil {
			after[name] = is
			f.lose(is, seen)
		}
	}
	n.names, n.durable = after, clone(after)
}

func sortedNames(maps ...map[string]*inode) []string {
	var names []string
	for _, m := range maps {
		for name := range m {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func clone(m map[string]*inode) map[string]*inode {
	out := map[string]*inode{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// torn is what the disk may have of a file: what was synced, or any beginning of what was written, of which
// stretches may never have arrived.
func (f *FS) torn(n *inode) []byte {
	if f.rng.IntN(3) == 0 {
		return slices.Clone(n.synced)
	}
	out := slices.Clone(n.data[:f.rng.IntN(len(n.data)+1)])
	if len(out) > 0 && f.rng.IntN(2) == 0 {
		at := f.rng.IntN(len(out))
		clear(out[at : at+f.rng.IntN(len(out)-at)+1])
	}
	return out
}

// change counts a change and says what becomes of it. Callers hold mu.
func (f *FS) change() error {
	f.ops++
	if f.dead > 0 && f.ops >= f.dead {
		return syscall.EIO
	}
	err := f.fails[f.ops]
	delete(f.fails, f.ops)
	return err
}

// look is for what changes nothing: it fails only for the dead.
func (f *FS) look() error {
	if f.dead > 0 && f.ops >= f.dead {
		return syscall.EIO
	}
	return nil
}

func (f *FS) find(name string) (*inode, error) {
	n := f.root
	if name == "." {
		return n, nil
	}
	for seg := range strings.SplitSeq(name, "/") {
		if !n.dir {
			return nil, syscall.ENOTDIR
		}
		if n = n.names[seg]; n == nil {
			return nil, fs.ErrNotExist
		}
	}
	return n, nil
}

func (f *FS) parent(name string) (*inode, string, error) {
	dir, err := f.find(path.Dir(name))
	if err == nil && !dir.dir {
		err = syscall.ENOTDIR
	}
	return dir, path.Base(name), err
}

// OpenFile is os.Root's.
func (f *FS) OpenFile(name string, flag int, _ fs.FileMode) (folder.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find(name)
	switch {
	case err == nil && flag&os.O_EXCL != 0:
		return nil, fs.ErrExist
	case err == nil:
		return &file{fs: f, n: n}, f.look()
	case flag&os.O_CREATE == 0:
		return nil, err
	}
	dir, base, err := f.parent(name)
	if err != nil {
		return nil, err
	}
	if err := f.change(); err != nil {
		return nil, err
	}
	n = &inode{mod: f.clock()}
	dir.names[base] = n
	return &file{fs: f, n: n}, nil
}

// Mkdir is os.Root's.
func (f *FS) Mkdir(name string, _ fs.FileMode) error {
	return f.enter(name, func() (*inode, error) { return newDir(), nil })
}

// Link is os.Root's.
func (f *FS) Link(from, to string) error {
	return f.enter(to, func() (*inode, error) { return f.find(from) })
}

// enter gives a new name to what get gives.
func (f *FS) enter(name string, get func() (*inode, error)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, base, err := f.parent(name)
	if err != nil {
		return err
	}
	if dir.names[base] != nil {
		return fs.ErrExist
	}
	n, err := get()
	if err != nil {
		return err
	}
	if err := f.change(); err != nil {
		return err
	}
	dir.names[base] = n
	return nil
}

// Remove is os.Root's.
func (f *FS) Remove(name string) error {
	return f.leave(name, func(n *inode) error {
		if len(n.names) > 0 {
			return syscall.ENOTEMPTY
		}
		return nil
	})
}

// RemoveAll is os.Root's.
func (f *FS) RemoveAll(name string) error {
	return f.leave(name, func(*inode) error { return nil })
}

func (f *FS) leave(name string, may func(*inode) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, base, err := f.parent(name)
	if err != nil {
		return err
	}
	n := dir.names[base]
	if n == nil {
		return fs.ErrNotExist
	}
	if err := may(n); err != nil {
		return err
	}
	if err := f.change(); err != nil {
		return err
	}
	delete(dir.names, base)
	return nil
}

// Rename is os.Root's.
func (f *FS) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	src, old, err := f.parent(from)
	if err != nil {
		return err
	}
	dst, base, err := f.parent(to)
	if err != nil {
		return err
	}
	n := src.names[old]
	if n == nil {
		return fs.ErrNotExist
	}
	if there := dst.names[base]; there != nil && there.dir {
		return syscall.EISDIR
	}
	if err := f.change(); err != nil {
		return err
	}
	delete(src.names, old)
	dst.names[base] = n
	return nil
}

// Lstat is os.Root's.
func (f *FS) Lstat(name string) (fs.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find(name)
	if err != nil {
		return nil, err
	}
	return n.info(path.Base(name)), f.look()
}

// Stat is os.Root's; there are no links to follow.
func (f *FS) Stat(name string) (fs.FileInfo, error) { return f.Lstat(name) }

// Files lists every file below a folder, for tests that damage them.
func (f *FS) Files(dir string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find(dir)
	if err != nil {
		return nil
	}
	var out []string
	var walk func(*inode, string)
	walk = func(n *inode, at string) {
		for _, name := range sortedNames(n.names) {
			if kid := n.names[name]; kid.dir {
				walk(kid, at+"/"+name)
			} else {
				out = append(out, at+"/"+name)
			}
		}
	}
	walk(n, dir)
	return out
}

// Content gives a file's bytes to change, and puts back what change returns; nil removes the file.
func (f *FS) Content(name string, change func([]byte) []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, base, err := f.parent(name)
	if err != nil || dir.names[base] == nil {
		return
	}
	dir.set(base, change(slices.Clone(dir.names[base].data)), f.clock())
}

// Restore puts a file back as it was.
func (f *FS) Restore(name string, raw []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if dir, base, err := f.parent(name); err == nil {
		dir.set(base, raw, f.clock())
	}
}

// set gives a file, durably, other bytes; readers that have it open keep what they opened.
func (n *inode) set(base string, raw []byte, now time.Time) {
	delete(n.names, base)
	delete(n.durable, base)
	if raw != nil {
		one := &inode{data: raw, synced: slices.Clone(raw), mod: now}
		n.names[base], n.durable[base] = one, one
	}
}

type file struct {
	fs *FS
	n  *inode
	at int64
}

func (h *file) Read(p []byte) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if err := h.fs.look(); err != nil {
		return 0, err
	}
	if h.at >= int64(len(h.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, h.n.data[h.at:])
	h.at += int64(n)
	return n, nil
}

// Write may be cut off by death or a full disk, with the beginning written.
func (h *file) Write(p []byte) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	err := h.fs.change()
	if err != nil {
		p = p[:h.fs.rng.IntN(len(p)+1)]
	} else if room := h.fs.room; room >= 0 && len(p) > room {
		p, err = p[:room], syscall.ENOSPC
	}
	if h.fs.room >= 0 {
		h.fs.room -= min(len(p), h.fs.room)
	}
	if end := h.at + int64(len(p)); end > int64(len(h.n.data)) {
		h.n.data = append(h.n.data, make([]byte, end-int64(len(h.n.data)))...)
	}
	copy(h.n.data[h.at:], p)
	h.at += int64(len(p))
	h.n.mod = h.fs.clock()
	return len(p), err
}

func (h *file) Seek(to int64, whence int) (int64, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		to += h.at
	case io.SeekEnd:
		to += int64(len(h.n.data))
	}
	if to < 0 {
		return 0, fs.ErrInvalid
	}
	h.at = to
	return to, nil
}

// Sync makes a file's bytes, or a folder's names, durable.
func (h *file) Sync() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if err := h.fs.change(); err != nil {
		return err
	}
	if h.n.dir {
		h.n.durable = clone(h.n.names)
	} else {
		h.n.synced = slices.Clone(h.n.data)
	}
	return nil
}

func (h *file) Truncate(size int64) error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if err := h.fs.change(); err != nil {
		return err
	}
	h.n.data = append(h.n.data, make([]byte, max(0, size-int64(len(h.n.data))))...)[:size]
	return nil
}

func (h *file) Close() error { return nil }

func (h *file) Stat() (fs.FileInfo, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	return h.n.info("file"), h.fs.look()
}

func (h *file) ReadDir(int) ([]fs.DirEntry, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if !h.n.dir {
		return nil, syscall.ENOTDIR
	}
	var out []fs.DirEntry
	for _, name := range sortedNames(h.n.names) {
		out = append(out, fs.FileInfoToDirEntry(h.n.names[name].info(name)))
	}
	return out, h.fs.look()
}

func (n *inode) info(name string) fs.FileInfo { return info{name, int64(len(n.data)), n.dir, n.mod} }

type info struct {
	name string
	size int64
	dir  bool
	mod  time.Time
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) IsDir() bool        { return i.dir }
func (i info) ModTime() time.Time { return i.mod }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}
