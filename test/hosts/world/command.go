package world

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Cmd is a command on a host. It is used like an exec.Cmd: its fields are set before Start, and this process is its parent. It ends with its host.
type Cmd struct {
	*exec.Cmd
	host  *Host
	once  sync.Once
	err   error
	ended atomic.Bool
}

// Command is a command on the host. A program is looked for on this machine, whose files the host has; its folder is this process's.
func (h *Host) Command(name string, args ...string) *Cmd {
	return &Cmd{Cmd: exec.Command(name, args...), host: h}
}

// CommandContext is a Command that is killed when ctx ends.
func (h *Host) CommandContext(ctx context.Context, name string, args ...string) *Cmd {
	return &Cmd{Cmd: exec.CommandContext(ctx, name, args...), host: h}
}

// Start starts it inside the host.
func (c *Cmd) Start() error {
	h := c.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life == nil {
		return fmt.Errorf("start %s on %s: %w", c.Path, h.name, errOff)
	}
	if h.frozen {
		return fmt.Errorf("start %s on %s: it is frozen", c.Path, h.name)
	}
	if err := c.settle(); err != nil {
		return err
	}
	if dir := h.life.tree.unified(); dir != "" {
		group, err := os.Open(dir)
		if err != nil {
			return err
		}
		defer group.Close()
		c.SysProcAttr.UseCgroupFD, c.SysProcAttr.CgroupFD = true, int(group.Fd())
	}
	if err := onLostThread(func() error {
		if err := h.life.enter(); err != nil {
			return fmt.Errorf("enter host %s: %w", h.name, err)
		}
		return c.Cmd.Start()
	}); err != nil {
		return err
	}
	h.life.commands = append(slices.DeleteFunc(h.life.commands, func(c *Cmd) bool { return c.ended.Load() }), c)
	return nil
}

// settle makes what depends on this process's view absolute.
func (c *Cmd) settle() (err error) {
	if c.Err == nil && !filepath.IsAbs(c.Path) {
		if c.Path, err = filepath.Abs(c.Path); err != nil {
			return err
		}
	}
	if c.Dir == "" {
		if c.Dir, err = os.Getwd(); err != nil {
			return err
		}
	}
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	return nil
}

// enter brings this thread into the host. It can't come back.
func (l *life) enter() error {
	if err := l.tree.enter(); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // a thread that shares its folders can't change its mounts
		return err
	}
	if err := unix.Setns(int(l.space.Descriptor()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	for _, f := range l.others {
		if err := unix.Setns(int(f.Fd()), 0); err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	return nil
}

// onLostThread runs f on a thread that ends with it. It is never the first one: that one can't end, and others are judged by it.
func onLostThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			done <- onLostThread(f)
			runtime.UnlockOSThread()
			return
		}
		done <- f()
	}()
	return <-done
}

// Wait waits for its end; it may be called more than once.
func (c *Cmd) Wait() error {
	c.once.Do(func() {
		c.err = c.Cmd.Wait()
		c.ended.Store(true)
	})
	return c.err
}

// Run starts it and waits.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs it and returns what it printed.
func (c *Cmd) Output() ([]byte, error) {
	var out, bad bytes.Buffer
	c.Stdout = &out
	if c.Stderr == nil {
		c.Stderr = &bad
	}
	err := c.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		exit.Stderr = bad.Bytes()
	}
	return out.Bytes(), err
}

// CombinedOutput runs it and returns what it printed, errors too.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}
