// Package ledger knows how much the replicas have stored of their outputs.
//
// Place: layer 4, beside the link. Promise: a replica's limit holds over all its files, also when several are on their way, and a later attempt's file
// is never replaced by an earlier one's. Enemies: a count that is lost with the process; it is made again from what lies there.
package ledger

import (
	"context"
	"math"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermi-cluster/fermi/internal/blob"
)

// maxFiles bounds the files of one replica's outputs.
const maxFiles = 100_000

// Ledger knows how much each replica has stored, so that the limit holds over all files. It
// is rebuilt from the blob store when it doesn't know. The zero value knows nothing yet; safe for concurrent use.
type Ledger struct {
	mu      sync.Mutex
	folders map[string]*Folder
}

// Folder is what one replica has stored.
type Folder struct {
	mu     sync.Mutex
	loaded bool
	used   time.Time
	files  map[string]file
	total  int64
}

type file struct {
	size    int64
	attempt int // that wrote it; 0: before our time
}

// Open finds the folder with this prefix among the blobs.
func (l *Ledger) Open(ctx context.Context, store blob.Store, prefix string, now time.Time) (*Folder, error) {
	l.mu.Lock()
	f := l.folders[prefix]
	if f == nil {
		if l.folders == nil {
			l.folders = map[string]*Folder{}
		}
		f = &Folder{files: map[string]file{}}
		l.folders[prefix] = f
	}
	f.used = now
	l.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	for after := ""; !f.loaded; {
		infos, err := store.List(ctx, prefix, after, 1000)
		if err != nil {
			return nil, err
		}
		for _, info := range infos {
			f.put(strings.TrimPrefix(info.Key, prefix), file{size: info.Size})
			after = info.Key
		}
		f.loaded = len(infos) == 0 || len(f.files) > maxFiles
	}
	return f, nil
}

// Sweep forgets the folders that nobody has used for so long.
func (l *Ledger) Sweep(now time.Time, unused time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for prefix, f := range l.folders {
		if now.Sub(f.used) > unused {
			delete(l.folders, prefix)
		}
	}
}

// put notes a file, mu held.
func (f *Folder) put(path string, file file) {
	f.total += file.size - f.files[path].size
	f.files[path] = file
}

// Slot is room for one file, held while it is written.
type Slot struct {
	folder *Folder
	path   string
	old    file
	had    bool
	now    file
}

// Replaced is the size of what the file takes the place of.
func (s *Slot) Replaced() int64 { return s.old.size }

// Reserve makes room, or refuses; nil without an error means that a later attempt's file is there.
func (f *Folder) Reserve(path string, size int64, attempt int, limit int64) (*Slot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, had := f.files[path]
	if had && old.attempt > attempt {
		return nil, nil
	}
	if !had && len(f.files) >= maxFiles {
		return nil, status.Errorf(codes.ResourceExhausted, "more than %d output files", maxFiles)
	}
	if rest := f.total - old.size; rest > limit || size > limit-rest || rest > math.MaxInt64-size {
		return nil, status.Errorf(codes.ResourceExhausted, "the outputs are over the limit of %d bytes", limit)
	}
	s := &Slot{folder: f, path: path, old: old, had: had, now: file{size: size, attempt: attempt}}
	f.put(path, s.now)
	return s, nil
}

// Settle gives the room back when the file was not stored.
func (s *Slot) Settle(stored bool) {
	if stored {
		return
	}
	s.folder.mu.Lock()
	defer s.folder.mu.Unlock()
	if s.folder.files[s.path] != s.now {
		return
	}
	s.folder.put(s.path, s.old)
	if !s.had {
		delete(s.folder.files, s.path)
	}
}
