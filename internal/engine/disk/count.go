package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	maxDepth = 256     // of folders; each level holds a descriptor
	slice    = 4096    // entries between two pauses
	batch    = 256     // names read at once
	maxSeen  = 1 << 18 // files with several names that are remembered
	maxOpen  = 4096    // descriptors and mappings of one process that are looked at
)

// ErrTooDeep says that folders are nested deeper than anybody needs; what is below can't be counted.
var ErrTooDeep = fmt.Errorf("folders are nested deeper than %d levels", maxDepth)

// errEnough ends a walk that has counted more than asked for.
var errEnough = errors.New("enough")

type inode struct{ dev, ino uint64 }

// counter is one walk.
type counter struct {
	ctx   context.Context
	dev   uint64
	seen  map[inode]bool // those with several names, or none
	bytes int64
	files int64
	most  int64 // more than this need not be counted; 0: all
	left  int   // of the slice
	pause func(context.Context) error
}

// Count is what the folder, and the files that these processes hold open without a name, take on the
// folder's file system. It ends early, with what it has, when that is more than most (0: never). pause is
// called between slices.
func Count(ctx context.Context, root string, pids []int, most int64, pause func(context.Context) error) (int64, error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: root, Err: err}
	}
	dir := os.NewFile(uintptr(fd), root)
	defer dir.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	c := &counter{ctx: ctx, dev: uint64(st.Dev), seen: map[inode]bool{}, most: most, left: slice, pause: pause}
	err = c.folder(dir, 0)
	for _, pid := range pids {
		if err == nil {
			err = c.nameless(pid)
		}
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	return c.bytes, err
}

// Sum is Count of everything, and how many files and folders that are.
func Sum(ctx context.Context, root string, pids []int) (bytes, files int64, err error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0, &os.PathError{Op: "open", Path: root, Err: err}
	}
	dir := os.NewFile(uintptr(fd), root)
	defer dir.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, 0, err
	}
	c := &counter{ctx: ctx, dev: uint64(st.Dev), seen: map[inode]bool{}, left: slice, pause: func(ctx context.Context) error { return ctx.Err() }}
	err = c.folder(dir, 0)
	for _, pid := range pids {
		if err == nil {
			err = c.nameless(pid)
		}
	}
	return c.bytes, c.files, err
}

// add counts one file.
func (c *counter) add(st *unix.Stat_t) error {
	if st.Nlink != 1 {
		key := inode{uint64(st.Dev), st.Ino}
		if c.seen[key] {
			return nil
		}
		if len(c.seen) < maxSeen { // beyond it files count with each of their names
			c.seen[key] = true
		}
	}
	if c.bytes += st.Blocks * 512; c.most > 0 && c.bytes > c.most {
		return errEnough
	}
	return nil
}

// tick pauses between slices.
func (c *counter) tick() error {
	if c.left--; c.left > 0 {
		return nil
	}
	c.left = slice
	if err := c.ctx.Err(); err != nil {
		return err
	}
	return c.pause(c.ctx)
}

// folder counts what is in an open folder. Every step goes by a name in that folder and never through a
// link, so that nobody who changes the tree meanwhile can lead it elsewhere.
func (c *counter) folder(dir *os.File, depth int) error {
	fd := int(dir.Fd())
	for {
		names, err := dir.Readdirnames(batch)
		for _, name := range names {
			if err := c.entry(fd, name, depth); err != nil {
				return err
			}
		}
		if err != nil || len(names) == 0 {
			return nil // the end, or a folder that went away
		}
	}
}

func (c *counter) entry(fd int, name string, depth int) error {
	if err := c.tick(); err != nil {
		return err
	}
	var st unix.Stat_t
	if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil // gone meanwhile
	}
	if uint64(st.Dev) != c.dev {
		return nil // another file system's
	}
	c.files++
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return c.add(&st)
	}
	if c.bytes += st.Blocks * 512; c.most > 0 && c.bytes > c.most {
		return errEnough
	}
	if depth >= maxDepth {
		return ErrTooDeep
	}
	below, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil // gone, or no folder any more
	}
	dir := os.NewFile(uintptr(below), name)
	defer dir.Close()
	if unix.Fstat(below, &st) != nil || uint64(st.Dev) != c.dev {
		return nil
	}
	return c.folder(dir, depth+1)
}

// nameless counts what a process holds open, or mapped, though it was deleted.
func (c *counter) nameless(pid int) error {
	proc := "/proc/" + strconv.Itoa(pid)
	if err := c.held(filepath.Join(proc, "fd"), nil); err != nil {
		return err
	}
	maps, err := os.ReadFile(proc + "/maps")
	if err != nil || !strings.Contains(string(maps), " (deleted)") {
		return nil
	}
	var deleted []string
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), "(deleted)") && len(deleted) < maxOpen {
			span, _, _ := strings.Cut(line, " ")
			deleted = append(deleted, span)
		}
	}
	return c.held(filepath.Join(proc, "map_files"), deleted)
}

// held looks at the magic links of a folder in /proc: they lead to the open file itself, not to a name.
func (c *counter) held(dir string, names []string) error {
	if names == nil {
		f, err := os.Open(dir)
		if err != nil {
			return nil // it has ended
		}
		names, _ = f.Readdirnames(maxOpen)
		_ = f.Close()
	}
	for _, name := range names {
		if err := c.tick(); err != nil {
			return err
		}
		var st unix.Stat_t
		if unix.Stat(filepath.Join(dir, name), &st) != nil || st.Nlink != 0 || uint64(st.Dev) != c.dev || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		if err := c.add(&st); err != nil {
			return err
		}
	}
	return nil
}
