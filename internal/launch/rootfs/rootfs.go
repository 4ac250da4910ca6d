package rootfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/flock"
)

// Want is an image that a replica needs.
type Want struct {
	Reference string
	// Accounts are those of the task; the one for the reference's registry is used.
	Accounts []api.RegistryCredential
	// Registry is who is asked; nil: that of the reference, by ourselves.
	Registry Registry
	// Owner is the uid of the project that asks, Project its name, and Most how many bytes of images it may have on this node; 0: no limit.
	Owner   int
	Project string
	Most    int64
	// Known takes what the reference stood for when this project asked last, without asking again.
	Known bool
	// Progress is told how many bytes of all are here; it may be called from several goroutines. nil: nobody listens.
	Progress func(done, total int64)
}

// Image is one that is here, and held.
type Image struct {
	Root   string // of its file system
	Digest string // of its manifest for this machine, "sha256:…"
	Env    []string
	Says   *Says // nil: an earlier version laid it out, and its registry was not reached since
	Bytes  int64 // that it takes on the disk
	// Remembered: its registry was not reached, and this is what the reference stood for before.
	Remembered error
	lock       *os.File
	charge     *os.File
}

// Close lets go of it.
func (i *Image) Close() error {
	if i.charge == nil {
		return i.lock.Close()
	}
	return errors.Join(i.lock.Close(), i.charge.Close())
}

// Held holds an image that somebody else, of this uid, brought into dir a moment ago for the project that is its owner.
func Held(ctx context.Context, dir, digest string, uid, owner int) (_ *Image, err error) {
	key, err := keyOf(digest)
	if err != nil {
		return nil, err
	}
	charge, err := (&purse{dir: dir, owner: owner}).hold(ctx, key)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = charge.Close()
		}
	}()
	lock, err := os.OpenFile(filepath.Join(dir, dirLocks, key), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock.Take(ctx, lock, unix.LOCK_SH); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	place := filepath.Join(dir, dirRoots, key)
	for _, folder := range []string{filepath.Join(dir, dirRoots), place, filepath.Join(place, dirRoot)} {
		var st unix.Stat_t
		if err := unix.Lstat(folder, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != uid {
			return nil, errors.Join(fmt.Errorf("%s is not as it was made", folder), err, lock.Close())
		}
	}
	return &Image{Root: filepath.Join(place, dirRoot), Digest: digest, lock: lock, charge: charge}, nil
}

// Give makes the node's folder of images, and what an earlier version left there as another uid, one uid's. Nobody but it and root
// can enter.
func Give(dir string, uid int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return err
	}
	if int(st.Uid) == uid {
		return nil
	}
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		return os.Lchown(p, uid, uid)
	})
	return errors.Join(err, os.Lchown(dir, uid, uid)) // last: a walk that was cut off is made again
}

// about is what roots/HEX/image.json says.
type about struct {
	Env   []string `json:"env"`
	Says  *Says    `json:"says,omitempty"`
	Bytes int64    `json:"bytes,omitempty"` // 0: an earlier version did not count
}

const (
	fileAbout = "image.json"
	dirRoot   = "root"
	dirRoots  = "roots"
	dirBlobs  = "blobs"
	dirLocks  = "locks"
	dirRefs   = "refs"
	dirOwned  = "owned"
)

// Bring makes an image be in the node's folder dir and holds it. Faults are final and for the user; any other
// error may pass when tried again.
func Bring(ctx context.Context, dir string, w Want) (*Image, error) {
	ref, err := parse(w.Reference)
	if err != nil {
		return nil, err
	}
	if w.Registry == nil {
		w.Registry = &Remote{Reference: w.Reference, Accounts: w.Accounts}
	}
	for _, sub := range []string{dirRoots, dirBlobs, dirLocks, dirRefs, dirOwned} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	p := &purse{dir: dir, owner: w.Owner, project: w.Project, most: w.Most}
	remembers := func(name string) string {
		return filepath.Join(dir, dirRefs, strconv.Itoa(w.Owner)+"-"+hexOf(name))
	}
	memory := remembers(ref.Name())
	if w.Known {
		if i, err := recall(ctx, p, memory); err == nil {
			return i, nil
		}
	}
	var found source
	answer, err := w.Registry.Ask(ctx)
	if err == nil {
		found, err = believed(ctx, answer, w.Registry, ref.Name())
	}
	if err != nil {
		var f *fault.Error
		if !errors.As(err, &f) {
			if i, no := recall(ctx, p, memory); no == nil {
				i.Remembered = err
				return i, nil
			}
		}
		return nil, err
	}
	i, err := p.pay(ctx, found, w.Progress)
	if err != nil {
		return nil, err
	}
	err = writeWhole(memory, []byte(i.Digest))
	if whole := remembers(ref.Context().Digest(i.Digest).Name()); err == nil && whole != memory { // who wants the same again may ask by digest
		err = writeWhole(whole, []byte(i.Digest))
	}
	if err != nil {
		_ = i.Close()
		return nil, err
	}
	return i, nil
}

// recall holds what a reference stood for, if that is here.
func recall(ctx context.Context, p *purse, memory string) (*Image, error) {
	digest, err := os.ReadFile(memory)
	if err != nil {
		return nil, err
	}
	return p.pay(ctx, source{digest: string(digest)}, nil)
}

// pay charges an image and holds it: what it takes here, or, before it is fetched, what its layers have, which grows as it is laid out.
func (p *purse) pay(ctx context.Context, from source, progress func(done, total int64)) (*Image, error) {
	key, err := keyOf(from.digest)
	if err != nil {
		return nil, err
	}
	bytes, err := from.size()
	if err != nil {
		return nil, err
	}
	place := filepath.Join(p.dir, dirRoots, key)
	was, missing := readAbout(place)
	if missing == nil {
		bytes = was.Bytes
	}
	charge, err := p.claim(ctx, key, bytes)
	if err != nil {
		return nil, err
	}
	i, err := hold(ctx, p.dir, from, progress, &meter{most: p.most, told: bytes, raise: func(n int64) error { return p.change(ctx, key, charge, n) }})
	if err == nil && i.Bytes != bytes {
		if err = p.change(ctx, key, charge, i.Bytes); err != nil {
			_ = i.Close()
		}
	}
	if err != nil {
		err = errors.Join(err, charge.Close())
		var final *fault.Error
		if errors.As(err, &final) { // otherwise its layers stay, for the next try
			p.drop(ctx, key, missing != nil)
		}
		return nil, err
	}
	i.charge = charge
	return i, nil
}

// hold takes the image in use; what is not here is fetched from a source that has layers.
func hold(ctx context.Context, dir string, from source, progress func(done, total int64), m *meter) (*Image, error) {
	key, err := keyOf(from.digest)
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, dirLocks, key), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	place := filepath.Join(dir, dirRoots, key)
	for {
		if err := flock.Take(ctx, lock, unix.LOCK_SH); err != nil {
			return nil, errors.Join(err, lock.Close())
		}
		i, err := opened(place, from, lock)
		if err == nil {
			return i, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || from.image == nil {
			return nil, errors.Join(err, lock.Close())
		}
		if err := flock.Take(ctx, lock, unix.LOCK_EX); err != nil { // the kernel lets go of the other first: somebody may be before us
			return nil, errors.Join(err, lock.Close())
		}
		if _, err := os.Stat(place); errors.Is(err, fs.ErrNotExist) {
			if err := assemble(ctx, dir, key, from, progress, m); err != nil {
				return nil, errors.Join(err, lock.Close())
			}
		}
	}
}

// opened reads what is in its place, and notes that it is in use.
func opened(place string, from source, lock *os.File) (*Image, error) {
	a, err := readAbout(place)
	if err != nil {
		return nil, err
	}
	if a.Bytes == 0 || a.Says == nil && from.image != nil { // an earlier version laid it out
		if a.Bytes, err = measure(place); err != nil {
			return nil, err
		}
		if from.image != nil {
			config, err := from.image.ConfigFile()
			if err != nil {
				return nil, err
			}
			if a.Says, err = hear(config.Config, filepath.Join(place, dirRoot)); err != nil {
				return nil, unusable(from, err)
			}
		}
		if said, err := json.Marshal(a); err == nil {
			_ = writeWhole(filepath.Join(place, fileAbout), said) // or it is counted again
		}
	}
	now := time.Now()
	_ = os.Chtimes(place, now, now) // it is only found older than it is
	return &Image{Root: filepath.Join(place, dirRoot), Digest: from.digest, Env: a.Env, Says: a.Says, Bytes: a.Bytes, lock: lock}, nil
}

func readAbout(place string) (a about, err error) {
	data, err := os.ReadFile(filepath.Join(place, fileAbout))
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("%s: %w", fileAbout, err)
	}
	return a, nil
}

// keyOf is the name of a digest on disk.
func keyOf(digest string) (string, error) {
	h, err := v1.NewHash(digest)
	if err == nil && h.Algorithm != "sha256" {
		err = errors.New("not SHA-256")
	}
	return h.Hex, err
}

func hexOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}

// writeWhole replaces a small file at once; after a power cut it may be the old one.
func writeWhole(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
