package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
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

const (
	dirLocks = "locks"
	fileRoom = "room"
	dirRoot  = "root"
	fileList = "list"
	// Names in a project's folder that begin so are no versions.
	prefixNew = ".new-"
	prefixOld = ".old-"

	keepUnused = 30 * 24 * time.Hour
)

// Depot is a node's folder of versions. Several launchers use one.
type Depot struct {
	Dir string
	// Most is how many bytes all versions may take; 0: half of the disk.
	Most int64
	// Drop removes what is in a project's folder of a version, as that project.
	Drop func(ctx context.Context, uid int, place, digest string) error
}

// Version is one that a replica needs.
type Version struct {
	UID    int // of the project
	Digest string
	Bytes  int64
}

func (v Version) key() string { return strconv.Itoa(v.UID) + "-" + v.Digest }

// Held is one that is here, for as long as it is not closed.
type Held struct {
	Root string // of its files
	lock *os.File
}

// Close lets go of it.
func (h *Held) Close() error { return h.lock.Close() }

// Hold has a version be here; lay lays it out in place, a folder of the project's.
func (d *Depot) Hold(ctx context.Context, v Version, lay func(ctx context.Context, place string) error) (*Held, error) {
	place := filepath.Join(d.Dir, strconv.Itoa(v.UID))
	if err := d.open(place, v.UID); err != nil {
		return nil, err
	}
	lock, err := openLock(filepath.Join(d.Dir, dirLocks, v.key()))
	if err != nil {
		return nil, err
	}
	for {
		if err := flock.Take(ctx, lock, unix.LOCK_SH); err != nil {
			return nil, errors.Join(err, lock.Close())
		}
		if isLaid(place, v) {
			now := time.Now()
			_ = os.Chtimes(lock.Name(), now, now) // it is only found older than it is
			return &Held{Root: filepath.Join(place, v.Digest, dirRoot), lock: lock}, nil
		}
		if err := flock.Take(ctx, lock, unix.LOCK_EX); err != nil { // the kernel lets go of the other first: somebody may be before us
			return nil, errors.Join(err, lock.Close())
		}
		if isLaid(place, v) {
			continue
		}
		if err := d.makeRoom(ctx, v, lock); err != nil {
			return nil, errors.Join(err, lock.Close())
		}
		if err := lay(ctx, place); err != nil {
			return nil, errors.Join(err, lock.Close())
		}
		if !isLaid(place, v) {
			return nil, errors.Join(fmt.Errorf("version %s was laid out and is not there", v.Digest), lock.Close())
		}
	}
}

// open makes the folders: ours, which nobody else enters, and the project's in it.
func (d *Depot) open(place string, uid int) error {
	for _, dir := range []string{d.Dir, filepath.Join(d.Dir, dirLocks)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if err := os.Mkdir(place, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if uid == 0 || os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(place, uid, uid)
}

// isLaid says that a version is in its place, made by who should have made it.
func isLaid(place string, v Version) bool {
	var st unix.Stat_t
	if unix.Lstat(filepath.Join(place, v.Digest), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return false
	}
	return (v.UID == 0 || int(st.Uid) == v.UID) && isWhole(filepath.Join(place, v.Digest))
}

func openLock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
}

// entry is a version that takes room.
type entry struct {
	Version
	used time.Time
}

// makeRoom removes what nobody holds until there is room, and claims it; lock is the version's own, held alone.
func (d *Depot) makeRoom(ctx context.Context, v Version, lock *os.File) error {
	room, err := openLock(filepath.Join(d.Dir, dirLocks, fileRoom))
	if err != nil {
		return err
	}
	defer room.Close()
	if err := flock.Take(ctx, room, unix.LOCK_EX); err != nil {
		return err
	}
	all, err := d.entries(v.key())
	if err != nil {
		return err
	}
	most, err := d.most()
	if err != nil {
		return err
	}
	used := int64(0)
	for _, e := range all {
		used += e.Bytes
	}
	for _, e := range all {
		fits, err := d.fits(used, v.Bytes, most)
		if err != nil {
			return err
		}
		if fits && time.Since(e.used) < keepUnused {
			break // the others were used later
		}
		gone, err := d.remove(ctx, e)
		if err != nil {
			return err
		}
		if gone {
			used -= e.Bytes
		}
	}
	if fits, err := d.fits(used, v.Bytes, most); err != nil || !fits {
		return errors.Join(err, full(v.Bytes, used, most))
	}
	return claim(lock, v.Bytes)
}

func full(wants, used, most int64) error {
	return fault.New(fault.Full, "DataCacheFull", fault.T(
		"The version takes %s; running work holds %s of the %s that this node has for datasets and models, or the disk is full.",
		"该版本需要 %s；本节点用于数据集与模型的空间共 %[3]s，其中 %[2]s 正被运行中的任务占用，或磁盘已满。", api.Bytes(wants), api.Bytes(used), api.Bytes(most))).
		WithHint(fault.T("Wait until other work has ended, or choose another node.", "请等待其他任务结束，或选择其他节点。"))
}

// entries are all versions but one, the longest unused first.
func (d *Depot) entries(but string) (out []entry, err error) {
	list, err := os.ReadDir(filepath.Join(d.Dir, dirLocks))
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		uid, digest, ok := strings.Cut(e.Name(), "-")
		n, bad := strconv.Atoi(uid)
		if !ok || bad != nil || e.Name() == but {
			continue
		}
		path := filepath.Join(d.Dir, dirLocks, e.Name())
		info, err := os.Lstat(path)
		if err != nil || info.Size() == 0 {
			continue // nothing of it is here
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		bytes, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, entry{Version{n, digest, bytes}, info.ModTime()})
	}
	slices.SortFunc(out, func(a, b entry) int { return a.used.Compare(b.used) })
	return out, nil
}

func (d *Depot) most() (int64, error) {
	if d.Most > 0 {
		return d.Most, nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(d.Dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Blocks) * st.Bsize / 2, nil
}

// fits says that so many bytes more find room, within the limit and on the disk, of which a fiftieth stays free.
func (d *Depot) fits(used, more, most int64) (bool, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(d.Dir, &st); err != nil {
		return false, err
	}
	return used+more <= most && more <= (int64(st.Bavail)-int64(st.Blocks)/50)*st.Bsize, nil
}

// remove takes a version away unless somebody holds it.
func (d *Depot) remove(ctx context.Context, e entry) (bool, error) {
	lock, err := openLock(filepath.Join(d.Dir, dirLocks, e.key()))
	if err != nil {
		return false, err
	}
	defer lock.Close()
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false, nil
	}
	if err := d.Drop(ctx, e.UID, filepath.Join(d.Dir, strconv.Itoa(e.UID)), e.Digest); err != nil {
		return false, err
	}
	return true, lock.Truncate(0)
}

// claim writes down what a version takes.
func claim(lock *os.File, bytes int64) error {
	text := strconv.FormatInt(bytes, 10)
	if _, err := lock.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err := lock.WriteString(text)
	return err
}
