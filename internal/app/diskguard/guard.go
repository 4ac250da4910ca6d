package diskguard

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
)

const (
	lookEvery = 250 * time.Millisecond
	holdEvery = 10 * time.Second
	// lowRoom is where ordinary writes are refused, and leastRoom what the store and the history need to write down the end of things.
	lowRoom, leastRoom   = 64 << 20, 24 << 20
	lowNames, leastNames = 1024, 64
	// endPatience is how long a replica that was told to end may take before ballast is thrown away all the same.
	endPatience = 3 * time.Second
	// tellPause is between two replicas that are told to end.
	tellPause = 2 * time.Second
)

// Ended is a replica that was told to end.
type Ended struct {
	Replica engine.Name
	TaskID  string
	Bytes   int64
	Files   int64
}

// Config is what the guard looks after.
type Config struct {
	Data     string // the data folder
	Replicas string // the folder with a folder for each replica; "": nobody is ended
	Ballast  *embedded.Ballast
	Clock    clock.Clock
	Log      *slog.Logger
	// Said hears of each change: nil is that all is well again. Ended hears who was told to end.
	Said  func(*fault.Error)
	Ended func(context.Context, Ended)
}

// Guard looks at the disk. State is safe for concurrent use.
type Guard struct {
	cfg   Config
	state atomic.Pointer[fault.Error]

	probed error // of the last write
	told   map[engine.Name]time.Time
	last   time.Time // somebody was told to end
	since  time.Time // there is too little
	held   time.Time
}

func New(cfg Config) *Guard {
	return &Guard{cfg: cfg, told: map[engine.Name]time.Time{}}
}

// State is what is wrong with the disk; nil: nothing.
func (g *Guard) State() *fault.Error { return g.state.Load() }

// Run looks until ctx ends.
func (g *Guard) Run(ctx context.Context) error {
	for {
		g.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-g.cfg.Clock.After(lookEvery):
		}
	}
}

func (g *Guard) look(ctx context.Context) {
	room, err := embedded.RoomOf(g.cfg.Data)
	if err != nil {
		g.say(Failing(g.cfg.Data, err))
		return
	}
	now := g.cfg.Clock.Now()
	if now.Sub(g.held) >= holdEvery || now.Before(g.held) {
		g.held = now
		g.hold(room)
	}
	g.say(Judge(g.cfg.Data, room, g.probed))
	if !tooLittle(room) {
		g.since = time.Time{}
		clear(g.told)
		return
	}
	if g.since.IsZero() {
		g.since = now
	}
	if g.cfg.Replicas != "" && now.Sub(g.last) >= tellPause {
		g.endOne(ctx, room, now)
	}
	if !g.ending(now) {
		g.lighten(room)
	}
}

// hold keeps ballast, and writes a byte to see whether the disk takes it.
func (g *Guard) hold(room embedded.Room) {
	if !tooLittle(room) {
		if err := g.cfg.Ballast.Hold(); err != nil && !isFull(err) {
			g.cfg.Log.Warn("no ballast can be held on the disk", "error", err)
		}
	}
	g.probed = probe(g.cfg.Data)
}

// probe writes into a file that stays, so that it needs no room the next time.
func probe(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, ".fermi-look"), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte{'x'}, 0)
	return errors.Join(err, f.Sync(), f.Close())
}

// ending says that somebody was told to end and may still be doing so: what is thrown away now would be taken at once.
func (g *Guard) ending(now time.Time) bool {
	if now.Sub(g.since) >= endPatience {
		return false
	}
	return len(g.told) > 0
}

func (g *Guard) lighten(room embedded.Room) {
	if room.Free < leastOf(room) {
		if n := g.cfg.Ballast.Release(leastOf(room) - room.Free); n > 0 {
			g.cfg.Log.Warn("the disk is full: ballast was thrown away", "bytes", n, "free", room.Free)
		}
	}
	if room.Names > 0 && room.FreeNames < leastNames/2 {
		if n := g.cfg.Ballast.ReleaseNames(leastNames / 4); n > 0 {
			g.cfg.Log.Warn("the disk has no file names left: ballast was thrown away", "names", n)
		}
	}
}

func (g *Guard) say(e *fault.Error) {
	was := g.state.Swap(e)
	if (was == nil) != (e == nil) || was != nil && was.Reason != e.Reason {
		g.cfg.Said(e)
	}
}

// leastOf is smaller on a small disk.
func leastOf(r embedded.Room) int64 { return min(leastRoom, r.Total/16) }

func tooLittle(r embedded.Room) bool {
	return r.Free < leastOf(r) || r.Names > 0 && r.FreeNames < min(leastNames, r.Names/16)
}

// Judge names what is wrong with a disk; nil: nothing. probed is how the last write ended.
func Judge(dir string, r embedded.Room, probed error) *fault.Error {
	switch {
	case probed != nil && !isFull(probed):
		return Failing(dir, probed)
	case r.Names > 0 && r.FreeNames < min(lowNames, r.Names/16):
		return fault.New(fault.Full, "NamesExhausted", fault.T(
			"The file system of %s has %d file names (inodes) left of %d: only what ends work is written.", "%s 所在文件系统的文件名（inode）仅剩 %d 个（共 %d 个）：只接受用于结束任务的写入。", dir, r.FreeNames, r.Names)).
			WithHint(fault.T("Delete files there, or tasks that made many: fermi train stop NAME, fermi delete task NAME work all the same; writing resumes by itself.",
				"请删除其中的文件，或删除创建大量文件的任务：fermi train stop NAME、fermi delete task NAME 仍可使用；之后写入会自动恢复。"))
	case r.Free < lowRoom:
		return fault.New(fault.Full, "DiskFull", fault.T(
			"The disk of %s is almost full (%d MiB free): only what ends work is written.", "%s 所在磁盘即将写满（剩余 %d MiB）：只接受用于结束任务的写入。", dir, r.Free>>20)).
			WithHint(fault.T("Free some space there, or delete tasks: fermi train stop NAME, fermi delete task NAME and fermi node cordon NAME work all the same; writing resumes by itself.",
				"请释放空间或删除任务：fermi train stop NAME、fermi delete task NAME、fermi node cordon NAME 仍可使用；之后写入会自动恢复。"))
	}
	return nil
}

// Failing is a disk that does not do what it is told.
func Failing(dir string, cause error) *fault.Error { return embedded.DiskFailing(dir, cause) }

func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, fs.ErrNotExist)
}
