package folder

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/fault"
)

const (
	objects = "objects"
	temps   = "tmp"
	// swept is as old as the last look for temporary files that were left behind.
	swept = "swept"
	// staleTemp is how old a temporary file must be before Open takes it for left behind, and how often one looks;
	// another process may be writing younger ones.
	staleTemp = 24 * time.Hour
	// maxKnown bounds the memory of folders known to be durable.
	maxKnown = 1 << 14
)

// Store is a folder of objects. Several processes may use one folder.
type Store struct {
	dir   string
	files Files
	close func() error

	// dirs guards making and pruning folders in this process, so that nobody writes into a
	// folder whose own entry is not yet durable.
	dirs  sync.Mutex
	known map[string]struct{} // folders whose entry in their parent was synced
}

var (
	_ blob.Store   = (*Store)(nil)
	_ blob.Renamer = (*Store)(nil)
	_ blob.Creator = (*Store)(nil)
)

// Open makes the folder where absent and removes temporary files left behind long ago, once a day whoever opens it.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, sick(err, dir, "open")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, sick(err, dir, "open")
	}
	s, err := OpenFiles(rooted{root}, dir)
	if err != nil {
		root.Close()
		return nil, err
	}
	s.close = root.Close
	return s, nil
}

// OpenFiles is Open on a given file system, of which what names the folder in messages.
func OpenFiles(files Files, what string) (*Store, error) {
	s := &Store{dir: what, files: files, close: func() error { return nil }, known: map[string]struct{}{}}
	for _, d := range []string{objects, temps} {
		if err := files.Mkdir(d, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, sick(err, what, "open")
		}
	}
	if err := errors.Join(s.syncDir("."), s.syncDir(objects)); err != nil {
		return nil, sick(err, what, "open")
	}
	if info, err := files.Lstat(swept); err == nil && time.Since(info.ModTime()) < staleTemp {
		return s, nil
	}
	if err := s.sweep(temps); err != nil {
		return nil, sick(err, what, "open")
	}
	s.mark()
	return s, nil
}

// Close lets go of the folder; readers already opened stay good.
func (s *Store) Close() error { return s.close() }

// mark makes the file swept anew. Where that fails, the disk may be full, the next one who opens the folder sweeps too.
func (s *Store) mark() {
	s.files.Remove(swept)
	if f, err := s.files.OpenFile(swept, os.O_WRONLY|os.O_CREATE, 0o600); err == nil {
		f.Close()
	}
}

// sweep removes what is old below a folder of temporary files.
func (s *Store) sweep(dir string) error {
	entries, err := s.entries(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := dir + "/" + e.Name()
		info, err := e.Info()
		switch {
		case err != nil:
		case e.IsDir():
			err = s.sweep(name)
		case time.Since(info.ModTime()) > staleTemp:
			err = s.files.Remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// entries lists a folder of the root.
func (s *Store) entries(dir string) ([]fs.DirEntry, error) {
	f, err := s.files.OpenFile(dir, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

// Put writes or replaces an object.
func (s *Store) Put(ctx context.Context, key string, r io.Reader) (blob.Info, error) {
	return s.put(ctx, key, r, s.files.Rename)
}

// Create writes an object where there is none.
func (s *Store) Create(ctx context.Context, key string, r io.Reader) (blob.Info, error) {
	return s.put(ctx, key, r, func(tmp, dst string) error {
		switch err := s.files.Link(tmp, dst); {
		case errors.Is(err, fs.ErrExist):
			return blob.Exists(key).Because(err)
		case err != nil:
			return err
		}
		// The object stands; a temporary name that stays is swept one day.
		s.files.Remove(tmp)
		return nil
	})
}

func (s *Store) put(ctx context.Context, key string, r io.Reader, move func(tmp, dst string) error) (blob.Info, error) {
	if err := blob.CheckKey(key); err != nil {
		return blob.Info{}, err
	}
	var nonce [16]byte
	rand.Read(nonce[:]) // never fails
	tmp := temps + "/" + hex.EncodeToString(nonce[:1]) + "/" + hex.EncodeToString(nonce[1:])
	size, mod, err := s.writeTemp(ctx, tmp, r)
	if err == nil {
		err = s.moveIn(tmp, key, move)
	}
	if err != nil {
		s.files.Remove(tmp) // it may have moved; else Open sweeps it one day
		return blob.Info{}, sick(err, key, "write")
	}
	return blob.Info{Key: key, Size: size, Modified: mod}, nil
}

func (s *Store) writeTemp(ctx context.Context, name string, r io.Reader) (int64, time.Time, error) {
	t, err := s.newTemp(ctx, name)
	if err != nil {
		return 0, time.Time{}, err
	}
	if err := t.fill(r); err != nil {
		return 0, time.Time{}, errors.Join(err, t.close())
	}
	info, err := t.finish()
	if err := errors.Join(err, t.close()); err != nil {
		return 0, time.Time{}, err
	}
	return t.size, info.ModTime(), nil
}

// Rename moves an object.
func (s *Store) Rename(_ context.Context, from, to string) error {
	if err := errors.Join(blob.CheckKey(from), blob.CheckKey(to)); err != nil {
		return err
	}
	src := objects + "/" + from
	if err := s.moveIn(src, to, s.files.Rename); err != nil {
		return sick(err, from, "move")
	}
	// Without this a power cut might bring the old name back: no harm, only a stale copy.
	if err := s.syncDir(path.Dir(src)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return sick(err, from, "move")
	}
	s.prune(path.Dir(src))
	return nil
}

// moveIn brings src, a file of the root, to the object's place by move, durably.
func (s *Store) moveIn(src, key string, move func(src, dst string) error) error {
	dst := objects + "/" + key
	for try := 0; ; try++ {
		if err := s.makeDirs(path.Dir(dst)); err != nil {
			return err
		}
		err := move(src, dst)
		if err == nil {
			err = s.syncDir(path.Dir(dst))
			if errors.Is(err, fs.ErrNotExist) {
				return nil // deleted again, folder and all, by somebody else
			}
			return err
		}
		// Between the two steps a Delete may have pruned the folder.
		if !errors.Is(err, fs.ErrNotExist) || try == 100 {
			return err
		}
		if _, gone := s.files.Lstat(src); gone != nil {
			return gone
		}
	}
}

// makeDirs makes dir and what is above it, each entry synced before it is used.
func (s *Store) makeDirs(dir string) error {
	s.dirs.Lock()
	defer s.dirs.Unlock()
	var missing []string
	for d := dir; d != objects; d = path.Dir(d) {
		if _, ok := s.known[d]; ok {
			if _, err := s.files.Lstat(d); err == nil {
				break
			}
		}
		missing = append(missing, d)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		d := missing[i]
		if err := s.files.Mkdir(d, 0o700); err != nil {
			if info, e := s.files.Stat(d); e != nil || !info.IsDir() {
				return err
			}
		}
		if err := s.syncDir(path.Dir(d)); err != nil {
			return err
		}
		if len(s.known) >= maxKnown {
			clear(s.known)
		}
		s.known[d] = struct{}{}
	}
	return nil
}

func (s *Store) syncDir(dir string) error {
	f, err := s.files.OpenFile(dir, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// Open reads an object.
func (s *Store) Open(_ context.Context, key string) (io.ReadSeekCloser, blob.Info, error) {
	if err := blob.CheckKey(key); err != nil {
		return nil, blob.Info{}, err
	}
	// O_NONBLOCK: a pipe that somebody put here must not hold us up.
	f, err := s.files.OpenFile(objects+"/"+key, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, blob.Info{}, sick(err, key, "read")
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		f.Close()
		return nil, blob.Info{}, sick(err, key, "read")
	}
	return f, blob.Info{Key: key, Size: info.Size(), Modified: info.ModTime()}, nil
}

// Delete removes an object, or with a final "/" all under it.
func (s *Store) Delete(_ context.Context, key string) error {
	name, tree := strings.CutSuffix(key, "/")
	if err := blob.CheckKey(name); err != nil {
		return err
	}
	place := objects + "/" + name
	info, err := s.files.Lstat(place)
	switch {
	case absent(err):
		return nil
	case err != nil:
		return sick(err, key, "delete")
	case tree != info.IsDir():
		return nil // "a/" is not the object "a", nor the other way round
	case tree:
		err = s.files.RemoveAll(place)
	default:
		err = s.files.Remove(place)
	}
	if err != nil && !absent(err) {
		return sick(err, key, "delete")
	}
	if err := s.syncDir(path.Dir(place)); err != nil && !absent(err) {
		return sick(err, key, "delete")
	}
	s.prune(path.Dir(place))
	return nil
}

// prune removes folders that became empty. Failing to is no harm. One of two hexadecimal digits is there to spread names
// and will be wanted again: to make and remove it each time would heat the folder above.
func (s *Store) prune(dir string) {
	s.dirs.Lock()
	defer s.dirs.Unlock()
	for ; dir != objects && dir != "."; dir = path.Dir(dir) {
		if _, err := hex.DecodeString(path.Base(dir)); err == nil && len(path.Base(dir)) == 2 {
			return
		}
		if s.files.Remove(dir) != nil {
			return
		}
		delete(s.known, dir)
	}
}

// absent says that there is no such object: also when its folder is an object itself.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

// sick turns what the file system said into a fault.
func sick(err error, what, doing string) error {
	var already *fault.Error
	switch {
	case errors.As(err, &already):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault.From(err)
	case doing == "write" && (errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) || errors.Is(err, fs.ErrExist)):
		return fault.New(fault.Conflict, "KeyTaken", fault.T(
			"%q cannot be stored: a part of its path is an object, or it is a folder of objects.",
			"无法存储 %q：其路径的一部分是对象，或它是包含对象的目录。", what)).Because(err)
	case absent(err):
		return fault.New(fault.NotFound, "NoSuchObject", fault.T("There is no object %q.", "对象 %q 不存在。", what)).Because(err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return fault.New(fault.Full, "DiskFull", fault.T(
			"The disk of the object store is full.", "对象存储所在磁盘已满。")).
			WithHint(fault.T("Free some space and try again.", "请释放磁盘空间后重试。")).Because(err)
	case errors.Is(err, syscall.EIO):
		return fault.New(fault.Unavailable, "DiskFailing", fault.T(
			"The disk of the object store reports errors: could not "+doing+" %q.", "对象存储所在磁盘报告错误（"+doing+"）：%q。", what)).
			WithHint(fault.T("Look at the kernel's log (dmesg) and the disk.", "请查看内核日志（dmesg）并检查磁盘。")).Because(err)
	}
	return fault.New(fault.Internal, "BlobFailed", fault.T(
		"The object store could not "+doing+" %q.", "对象存储操作（"+doing+"）失败：%q。", what)).Because(fmt.Errorf("%s: %w", doing, err))
}
