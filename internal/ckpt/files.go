package ckpt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sort"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/ckpt/tensor"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// A script that saves itself leaves files and no slot. They are kept as a slot whose tree is a dict of
// paths and bytes, so that all tiers keep them, verify them and give them back as any other state.

const maxFiles = 1 << 20

// Folder is where files come from and go to: an os.Root, or one that is reached with other rights.
type Folder interface {
	Lstat(name string) (fs.FileInfo, error)
	OpenFile(name string, flag int, mode fs.FileMode) (*os.File, error)
	MkdirAll(name string, mode fs.FileMode) error
}

// FilesSlot makes a slot of files below a folder, paths as they are to come back. Nothing is read yet but their
// lengths. The files must not change until it is closed: who cares asks afterwards (watch.Unchanged). h says whose step it is.
func FilesSlot(root Folder, paths []string, h Header) (*Slot, error) {
	if len(paths) == 0 || len(paths) > maxFiles {
		return nil, badSlot("it has no files, or too many", "没有文件或文件过多")
	}
	paths = slices.Sorted(slices.Values(paths))
	src := &fileSource{root: root}
	pairs := make([]any, 0, len(paths))
	for _, name := range paths {
		if !localName(name) {
			return nil, badPath(name)
		}
		info, err := root.Lstat(name)
		if err != nil {
			return nil, slotFault(err)
		}
		if !info.Mode().IsRegular() {
			return nil, badPath(name)
		}
		pairs = append(pairs, []any{name, map[string]any{"y": []any{src.end, info.Size()}}})
		src.add(name, uint64(info.Size()))
	}
	h.Data, h.Tree = src.end, 0
	tree := mustJSON(map[string]any{"d": pairs})
	h.Tree = uint64(len(tree))
	h.Table = 4 * ((h.Data + slotSum - 1) / slotSum)
	if h.World == 0 || h.Rank >= h.World || h.Step == 0 || h.Step > maxCount || h.Data > tensor.MaxData || h.Tree > MaxTree {
		return nil, badSlot("its header contradicts itself", "头部自相矛盾")
	}
	return &Slot{Header: h, Tree: tree, src: src, close: src.close}, nil
}

func localName(name string) bool {
	return fs.ValidPath(name) && name != "." && len(name) <= tensor.MaxName-len("state.")
}

func badPath(name string) *fault.Error {
	return fault.New(fault.Invalid, "BadPath", fault.T("%.200q can't be kept as a file of a checkpoint.", "%.200q 不能作为检查点文件保存。", name))
}

// fileSource is files one after the other, each at a multiple of blobAlign, zeros between them. One
// is open at a time: they are read in order, or nearly.
type fileSource struct {
	root Folder
	at   []uint64
	name []string
	size []uint64
	end  uint64

	mu   sync.Mutex
	open int // index of f
	f    *os.File
}

func (s *fileSource) add(name string, size uint64) {
	s.at, s.name, s.size = append(s.at, s.end), append(s.name, name), append(s.size, size)
	s.end = (s.end + size + blobAlign - 1) / blobAlign * blobAlign
}

func (s *fileSource) close() error {
	if s.f == nil {
		return nil
	}
	return s.f.Close()
}

// ReadAt is io.ReaderAt.
func (s *fileSource) ReadAt(p []byte, at int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := 0
	for done < len(p) {
		want := uint64(at) - slotData + uint64(done)
		i := sort.Search(len(s.at), func(i int) bool { return s.at[i] > want }) - 1
		if i < 0 || want >= s.end {
			return done, io.EOF
		}
		// Several empty files may begin here: the last of them has what follows.
		in := want - s.at[i]
		if in >= s.size[i] {
			to := s.end
			if i+1 < len(s.at) {
				to = s.at[i+1]
			}
			n := min(to-want, uint64(len(p)-done))
			clear(p[done : done+int(n)])
			done += int(n)
			continue
		}
		n := min(s.size[i]-in, uint64(len(p)-done))
		if err := s.read(i, p[done:done+int(n)], int64(in)); err != nil {
			return done, err
		}
		done += int(n)
	}
	return done, nil
}

func (s *fileSource) read(i int, p []byte, at int64) error {
	if s.f == nil || s.open != i {
		if err := s.close(); err != nil {
			return err
		}
		f, err := s.root.OpenFile(s.name[i], os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		s.f, s.open = f, i
	}
	if n, err := s.f.ReadAt(p, at); n < len(p) {
		return errors.Join(io.ErrUnexpectedEOF, err)
	}
	return nil
}

// WriteFiles writes the files of a restored slot below a folder, which holds nothing of these names yet:
// each is durable when it returns. A slot that is no folder of files is refused before anything is written.
func WriteFiles(slot *Slot, root Folder) error {
	files, err := filesOf(slot)
	if err != nil {
		return err
	}
	in := stream{s: slot}
	buf := make([]byte, 1<<20)
	for _, f := range files {
		if err := in.skip(f.at, buf); err != nil {
			return err
		}
		if err := writeFile(root, f.name, io.LimitReader(&in, int64(f.size)), f.size, buf); err != nil {
			return fault.From(fmt.Errorf("%s: %w", f.name, err))
		}
	}
	return in.skip(slot.Header.Data, buf) // the last sum is at the end
}

type keptFile struct {
	name     string
	at, size uint64
}

// filesOf reads the tree that FilesSlot writes, and no other.
func filesOf(slot *Slot) ([]keptFile, error) {
	var tree struct {
		D [][2]json.RawMessage `json:"d"`
	}
	if err := json.Unmarshal(slot.Tree, &tree); err != nil || len(tree.D) == 0 || len(tree.D) > maxFiles {
		return nil, badSlot("it is no folder of files", "不是文件目录").Because(err)
	}
	var files []keptFile
	end := uint64(0)
	for _, pair := range tree.D {
		var name string
		var leaf struct {
			Y *[2]uint64 `json:"y"`
		}
		err := errors.Join(json.Unmarshal(pair[0], &name), json.Unmarshal(pair[1], &leaf))
		if err != nil || leaf.Y == nil {
			return nil, badSlot("it is no folder of files", "不是文件目录").Because(err)
		}
		f := keptFile{name, leaf.Y[0], leaf.Y[1]}
		if !localName(name) || len(files) > 0 && files[len(files)-1].name >= name {
			return nil, badPath(name)
		}
		if f.at < end || f.at > slot.Header.Data || f.size > slot.Header.Data-f.at {
			return nil, badSlot("a file lies outside of the data", "文件位于数据之外")
		}
		end = f.at + f.size
		files = append(files, f)
	}
	return files, nil
}

func writeFile(root Folder, name string, from io.Reader, size uint64, buf []byte) error {
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{f}, from, buf)
	if err == nil && uint64(n) != size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Read gives the bytes that follow.
func (r *stream) Read(p []byte) (int, error) {
	n := min(uint64(len(p)), r.s.Header.Data-r.at)
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return int(n), r.next(p[:n])
}

// skip reads on to a place: what lies between is checked as well.
func (r *stream) skip(to uint64, buf []byte) error {
	for r.at < to {
		if err := r.next(buf[:min(uint64(len(buf)), to-r.at)]); err != nil {
			return err
		}
	}
	return nil
}
