package hostengine

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/engine/record"
)

// launcherMemory is added to a replica's memory limit: the launcher lives in the same group, and
// the user's request is for the user's processes.
const launcherMemory = 64 << 20

// maxToken is what fits into a pipe whatever its size.
const maxToken = 4096

// inherited are the variables that a launcher gets from us; everything else stays here.
var inherited = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH"}

// starter starts launchers.
type starter struct {
	cfg       *Config
	dirs      *folders
	addresses *addresses
}

// spawn starts a launcher for the replica: in its own session and group, with nothing of ours but
// its token. Two spawns at once are harmless: the folder's lock lets one of them live.
func (s *starter) spawn(r *replica) (*process, error) {
	token := s.cfg.Mint(r.name)
	if len(token) > maxToken {
		return nil, fmt.Errorf("a token of %d bytes is too long", len(token))
	}
	if err := s.addresses.renew(r); err != nil {
		return nil, err
	}
	group, err := s.group(r)
	if err != nil {
		return nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	log, err := os.OpenFile(filepath.Join(r.dir, record.FileOwnLog), os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	pipe, feed, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer pipe.Close()
	defer feed.Close()
	hideFiles()
	pidfd := -1
	pid, err := group.Start(s.cfg.Exe, launcherCommand(s.cfg, r), &syscall.ProcAttr{
		Dir: "/", Env: launcherEnv(),
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd(), pipe.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
	})
	if err != nil {
		return nil, fmt.Errorf("start launcher: %w", err)
	}
	// The launcher goes on when it has its token, and by now it is in its group. We hold the other
	// end too, so this neither blocks nor fails because it died.
	_, err = feed.WriteString(token)
	p, watchErr := watchChild(pid, pidfd)
	if watchErr != nil {
		return nil, fmt.Errorf("watch launcher: %w", watchErr)
	}
	if err != nil {
		s.cfg.Log.Warn("launcher got no token", "replica", r.name, "error", err)
	}
	return p, nil
}

// launcherCommand is how a launcher is started.
func launcherCommand(cfg *Config, r *replica) []string {
	out := []string{cfg.Exe, "launch", "--dir", r.dir}
	if cfg.Remote != nil {
		out = append(out, "--replica", string(r.name), "--endpoints", cfg.Endpoints)
	}
	return out
}

// group makes the replica's cgroup and records it before anything can be in it. Where none can be
// made the replica runs without; the node's status says so.
func (s *starter) group(r *replica) (*cgroup.Group, error) {
	support := cgroup.Detect()
	if support.Version == 0 {
		return nil, nil
	}
	g, err := s.makeGroup(support, r)
	if err == nil && g == nil {
		return nil, nil // like its host
	}
	if err != nil {
		s.cfg.Log.Warn("replica runs without a cgroup", "replica", r.name, "error", err)
		return nil, nil
	}
	if record.Exists(r.dir, cgroup.File) {
		return g, nil
	}
	return g, g.Save(r.dir)
}

// makeGroup makes it with the limits of the request, or inside the group of its host.
func (s *starter) makeGroup(support cgroup.Support, r *replica) (*cgroup.Group, error) {
	if r.inside != "" {
		host, err := cgroup.Load(s.dirs.of(r.inside))
		if err != nil || host == nil {
			return nil, err
		}
		return host.Guest(string(r.name))
	}
	// Processes are real also where cores and memory are nominal, and so are the cards of the machine.
	limits := cgroup.Limits{Pids: r.resources.ProcessLimit(), Devices: true}
	if s.cfg.DeviceFiles != nil {
		limits.Open = cgroup.DevicesOf(s.cfg.DeviceFiles(r.devices))
	}
	if !r.virtual {
		limits.CPU = r.resources.CPU
		if r.resources.Memory > 0 {
			limits.Memory = r.resources.Memory + launcherMemory
		}
	}
	return support.Create(string(r.name), limits)
}

// launcherEnv is what a launcher begins with. It collects no garbage, unless there is much, before the process of the user runs: see launch.
func launcherEnv() []string {
	env := []string{"GOGC=off", "GOMEMLIMIT=64MiB"}
	for _, name := range inherited {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		} else if name == "PATH" {
			env = append(env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
		}
	}
	return env
}

// hideFiles makes every file that we were born with (a shell's or make's) close on exec. Those that
// Go opens are so already. Without it a launcher would keep them open for life.
var hideFiles = sync.OnceFunc(func() {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	entries, err := os.ReadDir("/proc/self/fd")
	for _, entry := range entries {
		var fd int
		if _, scanErr := fmt.Sscan(entry.Name(), &fd); scanErr == nil && fd > 2 {
			_, fcntlErr := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC)
			err = errors.Join(err, fcntlErr)
		}
	}
	_ = err // a file closed meanwhile; the rest is hidden
})
