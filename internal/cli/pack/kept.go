package pack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fermi-cluster/fermi/internal/cli/footprint"
)

// A folder whose newest file was changed while, or shortly before, it was packed is not remembered, and packed again.

// racy is longer than a tick of any file system in use.
const racy = 2 * time.Second

// kept is what is remembered of a folder that was packed.
type kept struct {
	Footprint string `json:"footprint"`
	Packed    Packed `json:"packed"`
}

// fileOf is where it is kept: in the user's cache, which may be lost at any time.
func fileOf(dir string) (string, error) {
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

// Remember keeps what a folder was packed to; whatever fails costs only time. began is when the packing did.
func (p Packed) Remember(dir string, began time.Time, save func(file string, data []byte) error) {
	if p.seen == nil || !p.seen.Newest.Before(began.Add(-racy)) {
		return
	}
	file, err := fileOf(dir)
	if err != nil {
		return
	}
	if data, err := json.Marshal(kept{p.seen.String(), p}); err == nil {
		_ = save(file, data)
	}
}

// Unchanged is what a folder was packed to, if nothing in it has changed since.
func Unchanged(ctx context.Context, dir string) (Packed, bool) {
	file, err := fileOf(dir)
	if err != nil {
		return Packed{}, false
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return Packed{}, false
	}
	var known kept
	if json.Unmarshal(data, &known) != nil || known.Packed.Digest == "" {
		return Packed{}, false
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Packed{}, false
	}
	defer root.Close()
	ig, err := loadIgnore(root)
	if err != nil {
		return Packed{}, false
	}
	look := &packer{ctx: ctx, root: root, ignore: ig, seen: footprint.New()}
	if fs.WalkDir(root.FS(), ".", look.visit) != nil || look.seen.String() != known.Footprint {
		return Packed{}, false
	}
	known.Packed.Left, known.Packed.Environments = look.out.Left, look.out.Environments
	return known.Packed, true
}
