package rotation

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/fermi-cluster/fermi/internal/app/keyfile"
)

// files is what was last read of the files.
type files struct {
	mu   sync.Mutex
	seen map[string]fs.FileInfo
	used map[string][]byte // by file
}

// changed says whether a file is not the one that was looked at last.
func (k *files) changed(path string) bool {
	info, err := os.Stat(path)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen == nil {
		k.seen = map[string]fs.FileInfo{}
	}
	had := k.seen[path]
	if err != nil {
		info = nil
	}
	k.seen[path] = info
	switch {
	case had == nil || info == nil:
		return (had == nil) != (info == nil)
	}
	return !os.SameFile(had, info) || !had.ModTime().Equal(info.ModTime()) || had.Size() != info.Size()
}

// remember keeps the keys that are in use.
func (k *files) remember(keys map[string][]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.used = keys
}

// putBack writes a key that is in use and whose file is gone: another in its place would shut out what runs, or secrets.
func (k *files) putBack(log *slog.Logger, dir string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, key := range k.used {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := keyfile.Make(path, key); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		log.Error("a key in use was gone from the folder; it was written there again", "file", path)
	}
	return nil
}
