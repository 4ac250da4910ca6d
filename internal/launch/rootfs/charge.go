package rootfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/launch/flock"
)

// A project is charged what the images take on this node that its tasks brought here. An image that several use lies here once
// and counts for each of them in full: who pays must not depend on who came first. A charge is a file, owned/UID-HEX, that holds
// the number of bytes and is locked, shared, by whoever uses the image for that project. Where the limit is reached, what
// the project has not used for longest is let go first; only what does not fit beside what is in use is refused.

const (
	// justUsed is for how long a charge counts as in use without a lock: its process may hand it over to the launcher.
	justUsed = time.Minute
	// eachFile is what a file counts beside its blocks: the disk has to keep its name and its inode.
	eachFile = 512
	// chargeStep is after how much more that was laid out the charge is raised, at most.
	chargeStep = 64 << 20
)

// purse is what a project may have on this node.
type purse struct {
	dir     string
	owner   int
	project string // for words
	most    int64  // 0: no limit
}

// charged is one of a project's charges.
type charged struct {
	key   string
	bytes int64
	used  time.Time
	there bool // the image is laid out
}

func (p *purse) path(key string) string {
	return filepath.Join(p.dir, dirOwned, strconv.Itoa(p.owner)+"-"+key)
}

// lock is held while the charges of one project are looked at and changed.
func (p *purse) lock(ctx context.Context) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(p.dir, dirOwned, strconv.Itoa(p.owner)), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock.Take(ctx, f, unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// claim charges an image and holds the charge until the file is closed. Fault Full when it does not fit.
func (p *purse) claim(ctx context.Context, key string, bytes int64) (*os.File, error) {
	lock, err := p.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := p.judge(key, bytes); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(p.path(key), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(flock.Take(ctx, f, unix.LOCK_SH), write(f, bytes)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// hold holds a charge that was claimed a moment ago, by another process.
func (p *purse) hold(ctx context.Context, key string) (*os.File, error) {
	lock, err := p.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	f, err := os.OpenFile(p.path(key), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("the image was let go again: %v", err) // may pass: no PathError
	}
	if err := flock.Take(ctx, f, unix.LOCK_SH); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// change sets a charge that is held. Fault Full when more does not fit; the charge is as it was then.
func (p *purse) change(ctx context.Context, key string, f *os.File, bytes int64) error {
	lock, err := p.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := p.judge(key, bytes); err != nil {
		return err
	}
	return write(f, bytes)
}

// drop takes back what was charged for an image that did not come, or for which there is no room, unless another process of the project is
// bringing it, too. With brought what was laid out for it goes as well.
func (p *purse) drop(ctx context.Context, key string, brought bool) {
	if lock, err := p.lock(ctx); err == nil {
		defer lock.Close()
		if p.uncharge(key) && brought {
			p.forsake(key)
		}
	}
}

// forsake removes an image that this project does not pay for any more, unless another one does. The lock is held.
func (p *purse) forsake(key string) {
	if others, err := filepath.Glob(filepath.Join(p.dir, dirOwned, "*-"+key)); err == nil && len(others) == 0 {
		remove(p.dir, key, key)
	}
}

// uncharge removes a charge that nobody holds. The lock is held.
func (p *purse) uncharge(key string) bool {
	f, err := os.OpenFile(p.path(key), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && os.Remove(p.path(key)) == nil
}

// judge says whether an image of so many bytes may be charged, and makes room for it. What is charged already may stay, also
// when the limit was lowered. The lock is held.
func (p *purse) judge(key string, bytes int64) error {
	if p.most <= 0 {
		return nil
	}
	list, err := p.list()
	if err != nil {
		return err
	}
	used := int64(0)
	for _, c := range list {
		if c.gone() {
			p.uncharge(c.key)
			continue
		}
		if c.key == key && c.bytes >= bytes {
			return nil
		}
		if c.key != key {
			used += c.bytes
		}
	}
	list = slices.DeleteFunc(list, charged.gone)
	slices.SortFunc(list, func(a, b charged) int { return a.used.Compare(b.used) })
	for _, c := range list {
		if used+bytes <= p.most {
			return nil
		}
		if c.key != key && c.there && p.letGo(c) {
			used -= c.bytes
		}
	}
	if used+bytes <= p.most {
		return nil
	}
	text := fault.T("The project %[1]q may have at most %[2]v of images on a node; those in use there take %[3]v, and this one would add %[4]v.",
		"项目 %[1]q 在每个节点上的镜像上限为 %[2]v，使用中的已占 %[3]v，该镜像还需 %[4]v。", p.project, api.Bytes(p.most), api.Bytes(used), api.Bytes(bytes))
	return fault.New(fault.Full, "ProjectLimit", text).
		WithFields(fault.Field{Path: "project.spec.limits.images", Message: text}).
		WithHint(fault.T("Use a smaller image, or fewer different ones at a time, or ask an admin: fermi project set %s --max-images N.",
			"请使用更小的镜像或减少同时使用的镜像；也可请管理员执行：fermi project set %s --max-images N。", p.project))
}

// letGo ends a charge that nobody uses; an image that nobody else is charged for goes with it. The lock is held.
func (p *purse) letGo(c charged) bool {
	if time.Since(c.used) < justUsed || !p.uncharge(c.key) {
		return false
	}
	p.forsake(c.key)
	return true
}

// gone says that an image was collected by its age; what was never finished counts until its layers are.
func (c charged) gone() bool { return !c.there && time.Since(c.used) > keepBlobs }

// list is what the project is charged for.
func (p *purse) list() (out []charged, err error) {
	entries, err := os.ReadDir(filepath.Join(p.dir, dirOwned))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		owner, key, ok := strings.Cut(e.Name(), "-")
		if !ok || owner != strconv.Itoa(p.owner) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // it went meanwhile
		}
		text, err := os.ReadFile(p.path(key))
		if err != nil {
			continue
		}
		c := charged{key: key, used: info.ModTime()}
		c.bytes, _ = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		_, err = os.Lstat(filepath.Join(p.dir, dirRoots, key))
		c.there = err == nil
		out = append(out, c)
	}
	return out, err
}

// Charged is what the images take in a node's folder that a project brought; the owner is its uid.
func Charged(dir string, owner int) (sum int64) {
	list, _ := (&purse{dir: dir, owner: owner}).list()
	for _, c := range list {
		if !c.gone() {
			sum += c.bytes
		}
	}
	return sum
}

// write puts a number, of always the same length, in its place, and notes that it is in use.
func write(f *os.File, bytes int64) error {
	_, err := f.WriteAt(fmt.Appendf(nil, "%020d\n", bytes), 0)
	return err
}

// measure is what a laid out file system takes; a file with several names counts once.
func measure(root string) (sum int64, err error) {
	seen := map[uint64]bool{}
	err = filepath.WalkDir(root, func(p string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(p, &st)
		}
		if err != nil || st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR && seen[st.Ino] {
			return err
		}
		if st.Nlink > 1 {
			seen[st.Ino] = true
		}
		sum += st.Blocks*512 + eachFile
		return nil
	})
	return sum, err
}
