package folder

import (
	"io"
	"io/fs"
	"os"
)

// Files is the file system under a store, names relative to its folder, as os.Root has them: what a
// test replaces by one that fails, fills up or loses what was not synced. Safe for concurrent use.
type Files interface {
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	Mkdir(name string, perm fs.FileMode) error
	Remove(name string) error
	RemoveAll(name string) error
	Rename(from, to string) error
	// Link gives a file a second name and fails with fs.ErrExist where there is one.
	Link(from, to string) error
	Lstat(name string) (fs.FileInfo, error)
	Stat(name string) (fs.FileInfo, error)
}

// File is an open file or folder; the methods are those of os.File.
type File interface {
	io.ReadWriteSeeker
	io.Closer
	Sync() error
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
	ReadDir(n int) ([]fs.DirEntry, error)
}

// rooted is the real one.
type rooted struct{ *os.Root }

func (r rooted) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := r.Root.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err // not a File that holds a nil
	}
	return f, nil
}
