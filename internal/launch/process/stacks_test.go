package process

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// asleep is a process that waits in the kernel.
func asleep(t *testing.T) int {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for !strings.Contains(ProcFile(cmd.Process.Pid, "cmdline"), "1000") || new(Census).VitalsOf(cmd.Process.Pid, false).State != 'S' {
		time.Sleep(time.Millisecond)
	}
	return cmd.Process.Pid
}

// TestUnreadable: that a stack may not be read is said, without the path, and is no error.
func TestUnreadable(t *testing.T) {
	pid := asleep(t)
	lines := InKernel(pid)
	if len(lines) < 2 || !strings.HasPrefix(lines[0].EN, "system call") || !strings.HasPrefix(lines[1].EN, "kernel stack:") {
		t.Errorf("%q", lines)
	}
	gone := InKernel(1 << 30)
	if len(gone) != 2 || gone[0].EN != "system call: can't be read (no such file or directory)" || gone[1].ZH != "内核栈：无法读取（no such file or directory）" {
		t.Errorf("%q", gone)
	}
	if err := bare(errors.New("x")); err.Error() != "x" {
		t.Error(err)
	}
}
