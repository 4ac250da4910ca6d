package launch

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/ckpt"
	"github.com/fermi-cluster/fermi/internal/ckpt/watch"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/inspect"
	"github.com/fermi-cluster/fermi/internal/launch/keeper"
	"github.com/fermi-cluster/fermi/internal/launch/rankset"
	"github.com/fermi-cluster/fermi/internal/launch/setup"
	"github.com/fermi-cluster/fermi/internal/launch/shm"
	"github.com/fermi-cluster/fermi/internal/launch/shmtest"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
	"github.com/fermi-cluster/fermi/internal/link"
)

const canary = "a secret that only root may read"

// estate is a launcher of a tenant with a real steward, and what it must not touch.
type estate struct {
	*setup.Enclosure
	saves  *keeper.Keeper
	w      *world
	secret string            // a file of root's
	before map[string]string // owners and modes of everything of root's
}

// tenantLauncher is a launcher whose folders are made; its steward runs as testUID behind its wall.
func tenantLauncher(t *testing.T, change func(*engine.Replica)) *estate {
	t.Helper()
	w := newWorld(t)
	r := w.walled(change, "true")
	e := &estate{w: w, secret: filepath.Join(w.dir, "admin.token")}
	if err := os.WriteFile(e.secret, []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	home := &setup.Home{Dir: r.dir, Replica: r.spec, Tenant: record.Tenant{UID: testUID, Hide: []string{w.dir}}, Folders: w.folders}
	e.Enclosure = setup.Enclose(home, nil, log)
	e.saves = keeper.New(keeper.Config{
		Replica: r.spec, Ranks: rankset.New(rankset.Config{Ranks: 1, Tell: func(link.Ranks) {}}), Slots: home.Slots, Code: home.Code, Steward: home.Steward, Clock: clock.Real, Log: log,
	})
	t.Cleanup(e.Dismiss)
	t.Cleanup(func() {
		if err := home.DropMemory(); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(home.MakeFolders(), home.MakeMemory()); err != nil {
		t.Fatal(err)
	}
	e.before = manifest(t, w.dir)
	return e
}

// manifest is who owns what, and its mode.
func manifest(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st syscall.Stat_t
		if err := syscall.Lstat(p, &st); err != nil {
			return err
		}
		if int(st.Uid) != testUID {
			out[p] = strings.Join([]string{d.Type().String(), os.FileMode(st.Mode).String(), string(rune('0' + st.Uid)), string(rune('0' + st.Gid))}, " ")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// untouched says that nothing of root's has changed.
func (e *estate) untouched(t *testing.T) {
	t.Helper()
	after := manifest(t, e.w.dir)
	for p, was := range e.before {
		if after[p] != was {
			t.Errorf("%s was %q and is %q", p, was, after[p])
		}
	}
	if data, err := os.ReadFile(e.secret); err != nil || string(data) != canary {
		t.Errorf("the secret is %q, %v", data, err)
	}
}

// TestHostileSlots: whatever a rank puts in the place of its slots, the launcher opens nothing that the rank could not, hangs nowhere and changes
// nothing of others.
func TestHostileSlots(t *testing.T) {
	e := tenantLauncher(t, nil)
	mine := filepath.Join(e.Home.Memory, "mine")
	world := filepath.Join("/dev/shm", "fermi-test-"+filepath.Base(e.w.dir)) // on the same file system: a hard link is possible
	shmtest.Copied(t, world, 6, bytes.Repeat([]byte{7}, 64))
	t.Cleanup(func() { os.Remove(world) })
	was, err := os.ReadFile(world)
	if err != nil {
		t.Fatal(err)
	}
	slot := filepath.Join(e.Home.Memory, shm.Name(0, 0))
	for name, put := range map[string]func() error{
		"link to a secret": func() error { return os.Symlink(e.secret, slot) },
		"link to a slot":   func() error { return os.Symlink(world, slot) },
		"hard link":        func() error { return os.Link(world, slot) },
		"pipe":             func() error { return unix.Mkfifo(slot, 0o666) },
		"folder":           func() error { return os.Mkdir(slot, 0o777) },
		"device by link":   func() error { return os.Symlink("/dev/zero", slot) },
		"loop":             func() error { return os.Symlink(slot, slot) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := errors.Join(os.RemoveAll(slot), put()); err != nil {
				t.Fatal(err)
			}
			if name != "hard link" {
				if err := os.Lchown(slot, testUID, testUID); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()
			if s, err := e.Home.Slots().Own(0, shm.State{Rank: 0, Step: 6}, 1); err == nil {
				s.Close()
				t.Error("it was read")
			}
			if s, err := e.Home.Slots().With(0, 6); err == nil {
				s.Close()
				t.Error("it was read")
			}
			if err := e.Home.Slots().Change(0, 0, func(f *os.File) error { return ckpt.Wipe(f) }); err == nil {
				t.Error("it was opened for writing")
			}
			e.saves.Check(link.Generation{Number: 2, Membership: link.Membership{World: 1}, States: link.States{Restore: 6}})
			if time.Since(began) >= steward.Patience {
				t.Error("it hung")
			}
			if now, err := os.ReadFile(world); err != nil || !bytes.Equal(now, was) {
				t.Error("another's slot was changed", err)
			}
		})
	}
	if err := os.RemoveAll(slot); err != nil {
		t.Fatal(err)
	}
	f, err := e.Home.Slots().Folder.Replace("mine", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	var st syscall.Stat_t
	if err := syscall.Lstat(mine, &st); err != nil || st.Uid != testUID {
		t.Errorf("what the steward makes is the tenant's: %d %v", st.Uid, err)
	}
	e.untouched(t)
}

// TestHostileFolder: a checkpoint folder that is, or becomes, a link to what is not the tenant's is neither entered nor given away, and no
// restored file is put there.
func TestHostileFolder(t *testing.T) {
	home, err := os.MkdirTemp("/var/tmp", "fh")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	e := tenantLauncher(t, func(s *engine.Replica) {
		s.Code, s.CheckpointFolder = &api.Code{Folder: "home/work"}, "ckpt"
	})
	e.Home.Folders = []api.NamedFolder{{Name: "home", Path: home}}
	others := filepath.Join(home, "others") // in the granted folder, but another's
	work := filepath.Join(home, "work")
	if err := errors.Join(os.Chmod(home, 0o755), os.Mkdir(others, 0o755), os.WriteFile(filepath.Join(others, "f"), []byte(canary), 0o600),
		os.Mkdir(work, 0o700), os.Lchown(work, testUID, testUID)); err != nil {
		t.Fatal(err)
	}
	ckptDir := filepath.Join(work, "ckpt")
	slot := filesSlot(t, "step-7", "restored")
	place := func() error {
		folder, err := e.saves.Folder.Open()
		if err == nil {
			err = folder.Make()
		}
		if err == nil {
			_, err = e.saves.Folder.Place(slot, folder)
		}
		return err
	}
	for _, to := range []string{others, e.w.dir, "../others", "../../../../etc", "/root"} {
		if err := errors.Join(os.RemoveAll(ckptDir), os.Symlink(to, ckptDir), os.Lchown(ckptDir, testUID, testUID)); err != nil {
			t.Fatal(err)
		}
		if err := place(); err == nil {
			t.Errorf("files were put at %s", to)
		}
		if w, err := e.saves.Folder.Watcher(1); err == nil && w != nil {
			if list, _ := w.Look(); len(list) > 0 {
				t.Errorf("%s is watched: %v", to, list)
			}
		}
	}
	// Swapped all the time, while it is looked at and filled.
	if err := os.RemoveAll(ckptDir); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var swapped atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = asTenant(func() error {
			for ; ; swapped.Add(1) {
				select {
				case <-stop:
					return nil
				default:
				}
				_ = os.Mkdir(ckptDir, 0o755)
				_ = os.Rename(ckptDir, ckptDir+".old")
				_ = os.Symlink([]string{others, e.w.dir, e.secret}[swapped.Load()%3], ckptDir)
				_ = os.Remove(ckptDir)
				_ = os.RemoveAll(ckptDir + ".old")
			}
		})
	})
	for n := 0; n < 150 || swapped.Load() < 100 && n < 100_000; n++ {
		_ = place()
		if w, err := e.saves.Folder.Watcher(1); err == nil && w != nil {
			list, _ := w.Look()
			for _, entry := range list {
				if slices.ContainsFunc(entry.Files, func(f watch.File) bool { return strings.Contains(f.Path, "token") }) {
					t.Error("a secret is watched")
				}
			}
		}
	}
	close(stop)
	wg.Wait()
	if n := swapped.Load(); n < 100 {
		t.Errorf("only %d swaps", n)
	}
	if list, err := os.ReadDir(others); err != nil || len(list) != 1 {
		t.Errorf("another's folder holds %v %v", list, err)
	}
	var st syscall.Stat_t
	if err := syscall.Lstat(filepath.Join(others, "f"), &st); err != nil || st.Uid != 0 {
		t.Error("another's file was given away", err)
	}
	e.untouched(t)
	// The control: with nothing in the way they are put there, as the tenant's.
	if err := place(); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(ckptDir, "step-7")); err != nil || string(data) != "restored" {
		t.Errorf("%q %v", data, err)
	}
	if err := syscall.Lstat(filepath.Join(ckptDir, "step-7"), &st); err != nil || st.Uid != testUID {
		t.Error(st.Uid, err)
	}
}

// TestHostileFacts: pipes where packages and interpreters are looked for are waited for by nobody.
func TestHostileFacts(t *testing.T) {
	e := tenantLauncher(t, nil)
	code := filepath.Join(e.Home.Dir, record.DirCode)
	pipe, link := filepath.Join(code, "pipe"), filepath.Join(code, "link")
	if err := errors.Join(unix.Mkfifo(pipe, 0o666), os.Chmod(pipe, 0o666), os.Symlink(e.w.dir, link)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	inspect.FactsOf(e.Home.Steward, []string{"python3"}, []string{"PATH=" + code + ":/usr/bin:/bin", "PYTHONPATH=" + pipe + ":" + link + ":/proc/self/fd:" + strings.Repeat(pipe+":", 200)}, e.Home.Dir)
	if _, err := e.Home.Steward.Text(pipe, 10); err == nil || time.Since(began) >= steward.Patience {
		t.Error(err, time.Since(began))
	}
	if names, err := e.Home.Steward.Names(link, 10); err == nil && slices.Contains(names, "admin.token") {
		t.Error("the data folder was seen")
	}
	e.untouched(t)
}

// TestStewardComesBack: killed at any moment it is started anew; the tenant's processes can't see it.
func TestStewardComesBack(t *testing.T) {
	e := tenantLauncher(t, nil)
	out := e.Home.Steward.In(filepath.Join(e.Home.Dir, record.DirOutput))
	for i := range 3 {
		f, err := out.OpenFile("f"+strings.Repeat("x", i), os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		pid := e.Helpers()[len(e.Helpers())-1].PID
		status, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "status"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"Uid:\t64991\t64991\t64991\t64991", "Gid:\t64991\t64991\t64991\t64991", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"} {
			if !strings.Contains(string(status), want) {
				t.Errorf("no %q in\n%s", want, status)
			}
		}
		if fds, err := os.ReadDir(filepath.Join("/proc", itoa(pid), "fd")); err != nil || len(fds) > 10 {
			t.Errorf("it has %d descriptors, %v", len(fds), err)
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(e.Helpers()); n > 3 {
		t.Errorf("%d helpers", n)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

// asTenant runs f on a thread that has the tenant's rights, and ends with it.
func asTenant(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		_, _, e := syscall.RawSyscall(syscall.SYS_SETRESGID, testUID, testUID, testUID)
		if e == 0 {
			_, _, e = syscall.RawSyscall(syscall.SYS_SETRESUID, testUID, testUID, testUID)
		}
		if e != 0 {
			done <- e
			return
		}
		done <- f()
	}()
	return <-done
}

// filesSlot is a checkpoint of one file.
func filesSlot(t *testing.T, name, text string) *ckpt.Slot {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	slot, err := ckpt.FilesSlot(root, []string{name}, ckpt.Header{World: 1, Generation: 1, Step: 7})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slot.Close() })
	return slot
}
