package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/rankset"
	"github.com/fermi-cluster/fermi/internal/launch/spool"
	"github.com/fermi-cluster/fermi/internal/link"
)

// TestAHangIsShown: what is told to the user of ranks that hang has the system call and the kernel's stack of each, or
// says that they may not be read here.
func TestAHangIsShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	s, err := spool.Open(path, clock.Real, quiet)
	if err != nil {
		t.Fatal(err)
	}
	var told link.Ranks
	r := rankset.New(rankset.Config{Ranks: 2, Tell: func(m link.Ranks) { told = m }})
	r.Begin(link.Generation{Number: 1, Membership: link.Membership{World: 2}})
	w := &witness{ranks: r, tools: tools{spool: s, log: quiet, clock: clock.Real}, procs: &process.Set{N: 2}, drag: &process.Drag{}}
	for i := range 2 {
		r.Printed(i, rankset.PrintedStep{Step: 7}, 1)
		r.Progress.Name(i, asleep(t))
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
	if _, err := process.ReadProc(r.Progress.Connected()[0], "stack"); err == nil {
		wants = append(wants, "rank 1:   [<0>] ")
	}
	for _, want := range wants {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

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
	for !strings.Contains(process.ProcFile(cmd.Process.Pid, "cmdline"), "1000") || new(process.Census).VitalsOf(cmd.Process.Pid, false).State != 'S' {
		time.Sleep(time.Millisecond)
	}
	return cmd.Process.Pid
}
