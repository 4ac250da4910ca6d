package launch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/link"
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
	for !strings.Contains(procFile(cmd.Process.Pid, "cmdline"), "1000") || new(census).vitalsOf(cmd.Process.Pid, false).state != 'S' {
		time.Sleep(time.Millisecond)
	}
	return cmd.Process.Pid
}

// TestAHangIsShown: what is told to the user of ranks that hang has the system call and the kernel's stack of each, or
// says that they may not be read here.
func TestAHangIsShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	s, err := openSpool(path, clock.Real, quiet)
	if err != nil {
		t.Fatal(err)
	}
	var told link.Ranks
	r := ranksOf(&told)
	w := &warden{l: &launcher{ranks: r, spool: s, log: quiet, clock: clock.Real}, procs: &processes{n: 2}}
	for i := range 2 {
		r.take(i, word{Progress: &wordProgress{Step: 7}})
		r.stall.pulses[i].pid = asleep(t)
	}
	w.testify(time.Now().Add(time.Minute), false)
	if len(told.Hung) != 2 || told.Hung[1].State != 'S' {
		t.Fatalf("%+v", told.Hung)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wants := []string{"rank 0: no progress since step 7", "rank 1: no progress since step 7", "rank 0: system call", "rank 1: system call", "rank 0: kernel stack:", "rank 1: kernel stack:", "内核栈："}
	if _, err := readProc(r.stall.pulses[0].pid, "stack"); err == nil {
		wants = append(wants, "rank 1:   [<0>] ")
	}
	for _, want := range wants {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// TestUnreadable: that a stack may not be read is said, without the path, and is no error.
func TestUnreadable(t *testing.T) {
	pid := asleep(t)
	lines := inKernel(pid)
	if len(lines) < 2 || !strings.HasPrefix(lines[0].EN, "system call") || !strings.HasPrefix(lines[1].EN, "kernel stack:") {
		t.Errorf("%q", lines)
	}
	gone := inKernel(1 << 30)
	if len(gone) != 2 || gone[0].EN != "system call: can't be read (no such file or directory)" || gone[1].ZH != "内核栈：无法读取（no such file or directory）" {
		t.Errorf("%q", gone)
	}
	if err := bare(errors.New("x")); err.Error() != "x" {
		t.Error(err)
	}
}
