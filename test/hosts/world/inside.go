package world

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// The first process of a host is the test binary, with its orders in this variable; the second one says that it is in its groups already.
const (
	envHost   = "FERMI_WORLD_HOST"
	envInside = "FERMI_WORLD_INSIDE"
)

// wordReady is what it says when the host is furnished; anything else is why it could not be.
const wordReady = "ready"

// Its files, beside the usual three.
const (
	fdLife = 3 // ends with the test
	fdSay  = 4
)

// ready says that Main was called.
var ready bool

// Main is called by TestMain. It runs the tests; in the first process of a host it never returns.
func Main(m *testing.M) {
	if text := os.Getenv(envHost); text != "" {
		beFirst(text)
	}
	ready = true
	os.Exit(m.Run())
}

// orders are what the first process makes of its namespaces.
type orders struct {
	Name   string
	Exe    string
	Boot   string // file with the boot id
	Layers []overlay
	Groups groups
}

// overlay is a folder of the machine with what the host wrote on top.
type overlay struct{ Path, Upper, Work string }

// beFirst furnishes the host, then reaps until the test is gone. When it ends, the kernel ends all that runs there.
func beFirst(text string) {
	var o orders
	err := json.Unmarshal([]byte(text), &o)
	if err == nil && os.Getenv(envInside) == "" {
		err = o.begin() // does not come back unless it failed
	} else if err == nil {
		err = o.furnish()
	}
	say := os.NewFile(fdSay, "say")
	if err != nil {
		fmt.Fprintln(say, err)
		os.Exit(1)
	}
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	fmt.Fprintln(say, wordReady)
	say.Close()
	go func() {
		for range children {
			for pid := 1; pid > 0; {
				pid, _ = unix.Wait4(-1, nil, unix.WNOHANG, nil)
			}
		}
	}()
	var b [1]byte
	_, _ = os.NewFile(fdLife, "life").Read(b[:])
	os.Exit(0)
}

// begin goes into the host's groups, makes them the root of what is seen here, and starts again: only this thread has the new view,
// and the program that it becomes has it whole.
func (o *orders) begin() error {
	runtime.LockOSThread()
	for _, g := range o.Groups {
		if err := os.WriteFile(filepath.Join(g.Base, "cgroup.procs"), []byte("0"), 0); err != nil {
			return err
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("own view of control groups: %w", err)
	}
	return unix.Exec(o.Exe, os.Args, append(os.Environ(), envInside+"=1"))
}

func (o *orders) furnish() error {
	if err := unix.Sethostname([]byte(o.Name)); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("own mounts: %w", err)
	}
	for _, l := range o.Layers {
		if err := unix.Mount("overlay", l.Path, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", l.Path, l.Upper, l.Work)); err != nil {
			return fmt.Errorf("own %s: %w", l.Path, err)
		}
	}
	const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	for _, m := range []struct {
		target, kind, data string
		flags              uintptr
	}{
		{"/proc", "proc", "", quiet},
		{"/sys", "sysfs", "", quiet},
		{"/run", "tmpfs", "mode=755", unix.MS_NOSUID | unix.MS_NODEV},
		{"/dev/shm", "tmpfs", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV},
	} {
		if err := unix.Mount(m.kind, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("own %s: %w", m.target, err)
		}
	}
	if err := unix.Mount(o.Boot, "/proc/sys/kernel/random/boot_id", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("own boot id: %w", err)
	}
	return o.mountGroups()
}

// mountGroups shows the host's groups where the machine shows its own.
func (o *orders) mountGroups() error {
	const top = "/sys/fs/cgroup"
	if len(o.Groups) > 1 {
		if err := unix.Mount("tmpfs", top, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("own %s: %w", top, err)
		}
	}
	for _, g := range o.Groups {
		if err := os.MkdirAll(g.Mount, 0o755); err != nil {
			return err
		}
		kind := "cgroup"
		if g.Unified {
			kind = "cgroup2"
		}
		if err := unix.Mount(kind, g.Mount, kind, 0, g.Options); err != nil {
			return fmt.Errorf("own %s: %w", g.Mount, err)
		}
	}
	return nil
}
