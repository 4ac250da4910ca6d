package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A footprint tells whether a folder is as it was, without reading its files: by their names, sizes, inodes and times, as Git's
// index does. A file that was changed while, or shortly before, it was packed may be changed again within the same tick of the
// file system's clock: such a folder is not remembered, and packed again the next time.

// racy is longer than a tick of any file system in use.
const racy = 2 * time.Second

type footprint struct {
	sum    hash.Hash
	newest time.Time
}

func newFootprint() *footprint { return &footprint{sum: sha256.New()} }

// add is called for each entry in the order of the archive; info is of a file.
func (f *footprint) add(name string, kind byte, target string, info fs.FileInfo) {
	fmt.Fprintf(f.sum, "%c %q %q", kind, name, target)
	if info != nil {
		changed, inode := info.ModTime(), uint64(0)
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			// Nobody can set this time back: it also tells of a change that kept the other.
			changed, inode = time.Unix(st.Ctim.Unix()), st.Ino
		}
		fmt.Fprintf(f.sum, " %d %o %d %d %d", info.Size(), info.Mode(), info.ModTime().UnixNano(), changed.UnixNano(), inode)
		for _, t := range []time.Time{info.ModTime(), changed} {
			if t.After(f.newest) {
				f.newest = t
			}
		}
	}
	f.sum.Write([]byte{'\n'})
}

func (f *footprint) String() string { return hex.EncodeToString(f.sum.Sum(nil)) }

// keptPack is what is remembered of a folder that was packed.
type keptPack struct {
	Footprint string `json:"footprint"`
	Packed    packed `json:"packed"`
}

// packFile is where it is kept: in the user's cache, which may be lost at any time.
func packFile(dir string) (string, error) {
	whole, err := filepath.Abs(dir)
	if err == nil {
		whole, err = filepath.EvalSymlinks(whole)
	}
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(whole))
	return filepath.Join(cache, "fermi", "code", hex.EncodeToString(sum[:16])+".json"), nil
}

// remember keeps what a folder was packed to; whatever fails costs only time. began is when the packing did.
func (p packed) remember(dir string, began time.Time) {
	if p.seen == nil || !p.seen.newest.Before(began.Add(-racy)) {
		return
	}
	file, err := packFile(dir)
	if err != nil {
		return
	}
	if data, err := json.Marshal(keptPack{p.seen.String(), p}); err == nil {
		_ = replaceFile(file, data)
	}
}

// unchanged is what a folder was packed to, if nothing in it has changed since.
func unchanged(ctx context.Context, dir string) (packed, bool) {
	file, err := packFile(dir)
	if err != nil {
		return packed{}, false
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return packed{}, false
	}
	var kept keptPack
	if json.Unmarshal(data, &kept) != nil || kept.Packed.Digest == "" {
		return packed{}, false
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return packed{}, false
	}
	defer root.Close()
	ig, err := loadIgnore(root)
	if err != nil {
		return packed{}, false
	}
	look := &packer{ctx: ctx, root: root, ignore: ig, seen: newFootprint()}
	if fs.WalkDir(root.FS(), ".", look.visit) != nil || look.seen.String() != kept.Footprint {
		return packed{}, false
	}
	kept.Packed.Left, kept.Packed.Environments = look.out.Left, look.out.Environments
	return kept.Packed, true
}
