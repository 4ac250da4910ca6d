package cgroup

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Start runs a program in the group and returns its pid. The caller reaps it. A nil group starts
// it where we are.
//
// On version 2 the kernel clones into the group. Version 1 has no such call: the program is moved
// right after it was started, so what it forks before Start returns may stay outside; give it what
// it waits for (the launcher waits for its token) only afterwards. (A thread of ours could step
// into the group and fork there, but then our own process is listed as a member for a moment, and
// somebody else's Kill would hit us.)
func (g *Group) Start(argv0 string, argv []string, attr *syscall.ProcAttr) (int, error) {
	if g != nil && g.Version == 2 {
		return g.startUnified(argv0, argv, attr)
	}
	pid, err := syscall.ForkExec(argv0, argv, attr)
	if err != nil || g == nil {
		return pid, err
	}
	return pid, g.addStarted(pid)
}

func (g *Group) startUnified(argv0 string, argv []string, attr *syscall.ProcAttr) (int, error) {
	dir, err := os.Open(g.entry(g.Paths[0]))
	if err != nil {
		return 0, fmt.Errorf("open cgroup: %w", err)
	}
	defer dir.Close()
	sys := syscall.SysProcAttr{}
	if attr.Sys != nil {
		sys = *attr.Sys
	}
	plain := *attr
	sys.UseCgroupFD, sys.CgroupFD = true, int(dir.Fd())
	inside := *attr
	inside.Sys = &sys
	if pid, err := syscall.ForkExec(argv0, argv, &inside); err == nil {
		return pid, nil
	}
	// Kernels before 5.7 cannot; neither can a seccomp filter that hides clone3.
	pid, err := syscall.ForkExec(argv0, argv, &plain)
	if err != nil {
		return 0, err
	}
	return pid, g.addStarted(pid)
}

// addStarted moves a program that was started outside; if that fails the program must not run on.
func (g *Group) addStarted(pid int) error {
	err := g.AddPID(pid)
	if err == nil {
		return nil
	}
	_ = unix.Kill(pid, unix.SIGKILL) // our own child, not yet reaped: the pid is its own
	_, _ = unix.Wait4(pid, nil, 0, nil)
	return fmt.Errorf("move %d into its cgroup: %w", pid, err)
}
