// Package footprint tells whether a folder is as it was, without reading its files: by their names, sizes, inodes and times, as
// Git's index does.
//
// Place: layer 5, beside cli; standard library alone. Promise: two folders with one footprint hold the same bytes, unless a file
// was changed again within the same tick of the file system's clock: Newest tells whoever must know. Enemies: a change that set
// a file's time back.
package footprint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io/fs"
	"syscall"
	"time"
)

// Footprint is of a folder whose entries are added one by one.
type Footprint struct {
	sum hash.Hash
	// Newest is the latest change of a file.
	Newest time.Time
}

func New() *Footprint { return &Footprint{sum: sha256.New()} }

// Add is called for each entry in the order of the archive; info is of a file.
func (f *Footprint) Add(name string, kind byte, target string, info fs.FileInfo) {
	fmt.Fprintf(f.sum, "%c %q %q", kind, name, target)
	if info != nil {
		changed, inode := info.ModTime(), uint64(0)
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			// Nobody can set this time back: it also tells of a change that kept the other.
			changed, inode = time.Unix(st.Ctim.Unix()), st.Ino
		}
		fmt.Fprintf(f.sum, " %d %o %d %d %d", info.Size(), info.Mode(), info.ModTime().UnixNano(), changed.UnixNano(), inode)
		for _, t := range []time.Time{info.ModTime(), changed} {
			if t.After(f.Newest) {
				f.Newest = t
			}
		}
	}
	f.sum.Write([]byte{'\n'})
}

func (f *Footprint) String() string { return hex.EncodeToString(f.sum.Sum(nil)) }

// Size counts what is written to it.
type Size int64

func (s *Size) Write(p []byte) (int, error) {
	*s += Size(len(p))
	return len(p), nil
}
