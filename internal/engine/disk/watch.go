package disk

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/clock"
)

const (
	lookEvery  = 2 * time.Second
	slicePause = 20 * time.Millisecond
	maxRest    = time.Minute
	// headroom is what the kernel's limit lies above ours, so that it is seen who went over it.
	headroom = 16 << 20
)

// Watch holds one folder to a limit.
type Watch struct {
	root  string
	limit int64
	loose bool
	kept  bool  // what lay there in the beginning does not count
	most  int64 // whatever lay there, it may not hold more; 0: no such bound
	free  int64 // of the file system, in the beginning
	quota *quota
	clock clock.Clock
	pids  func() []int
}

// New begins to hold the folder to a limit; call it before anybody writes there. pids are the processes
// that may hold nameless files. It starts nothing; Close ends it.
func New(root string, limit int64, c clock.Clock, pids func() []int) *Watch {
	return &Watch{root: root, limit: limit, clock: c, pids: pids, quota: holdFolder(root, limit+headroom)}
}

// Loose holds a folder whose owner named no limit to four fifths of what the disk has free now: nobody
// fills a disk that others write to. It looks closely only once the disk has lost much.
func Loose(root string, c clock.Clock, pids func() []int) *Watch {
	free := freeOf(root)
	return &Watch{root: root, limit: free / 5 * 4, loose: true, free: free, clock: c, pids: pids}
}

// LooseKept is Loose for a folder that has something in it already, which does not count, and that may not hold more than most in any case.
func LooseKept(root string, most int64, c clock.Clock, pids func() []int) *Watch {
	w := Loose(root, c, pids)
	w.kept, w.most, w.quota = true, most, holdFolder(root, most+headroom)
	return w
}

// Limit is how many bytes there may be.
func (w *Watch) Limit() int64 { return w.limit }

// ByKernel says that the kernel counts, and refuses what is far beyond.
func (w *Watch) ByKernel() bool { return w.quota != nil }

// Run returns when the folder holds more than its limit, with how much was found, or when ctx ends, with
// its error. ErrTooDeep is a tree that can't be counted.
func (w *Watch) Run(ctx context.Context) (int64, error) {
	rest := lookEvery
	if w.kept {
		had, err := w.count(ctx, 0)
		if err != nil && (ctx.Err() != nil || errors.Is(err, ErrTooDeep)) {
			return had, err
		}
		w.limit, w.kept = min(w.limit+had, w.most), false
	}
	for {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-w.clock.After(rest):
		}
		begun := w.clock.Now()
		used, err := w.look(ctx)
		switch {
		case errors.Is(err, ErrTooDeep), err == nil && used > w.limit:
			return used, err
		case ctx.Err() != nil:
			return 0, ctx.Err()
		}
		// A tree that takes long to walk is walked more rarely: at most a tenth of the time.
		rest = min(max(lookEvery, 9*w.clock.Now().Sub(begun)), maxRest)
	}
}

// look is what the folder holds now; 0 where that is of no interest.
func (w *Watch) look(ctx context.Context) (int64, error) {
	if w.quota != nil {
		if used, err := w.quota.used(); err == nil {
			return used, nil
		}
	}
	if w.loose && w.most == 0 && w.free-freeOf(w.root) < w.free/5*2 {
		return 0, nil
	}
	return w.count(ctx, w.limit)
}

func (w *Watch) count(ctx context.Context, most int64) (int64, error) {
	return Count(ctx, w.root, w.pids(), most, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.clock.After(slicePause):
			return nil
		}
	})
}

// Close lets go of the folder.
func (w *Watch) Close() {
	if w.quota != nil {
		w.quota.forget()
		w.quota = nil
	}
}

func freeOf(dir string) int64 {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0
	}
	return int64(st.Bavail) * st.Bsize
}
