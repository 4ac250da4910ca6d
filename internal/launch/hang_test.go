package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
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

// TestDoingNothingIsSeen: of ranks that tell nothing of steps, and only when none of them did anything for long.
func TestDoingNothingIsSeen(t *testing.T) {
	var told link.Ranks
	r := rankset.New(rankset.Config{Ranks: 2, Tell: func(m link.Ranks) { told = m }})
	r.Begin(link.Generation{Number: 1, Membership: link.Membership{World: 2}})
	r.Started(0)
	pids := map[int]int{0: asleep(t), 1: asleep(t)}
	s, err := spool.Open(filepath.Join(t.TempDir(), "spool"), clock.Real, quiet)
	if err != nil {
		t.Fatal(err)
	}
	procs, err := process.Spawn(engine.Replica{}, t.TempDir(), nil, [][]string{nil, nil}, 0, process.Sink{Spool: s, Steps: func(int) process.Reader { return nil }}, func(*process.Set, engine.Replica, string, []string, [][]string, uintptr, []inside.Pipes) error {
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer procs.Drained()
	w := &witness{ranks: r, tools: tools{log: quiet, clock: clock.Real}, procs: procs, drag: &process.Drag{}, pid: func(local int) int { return pids[local] }}
	now, dormant := time.Now(), rankset.Dormant{}
	look := func(times int) {
		for range times {
			now = now.Add(rankset.DormantTick)
			w.rest(dormant, now)
		}
	}
	if look(12); len(told.Hung) > 0 {
		t.Errorf("of a replica that may wait: %+v", told.Hung)
	}
	w.rests = true
	if look(10); len(told.Hung) > 0 {
		t.Errorf("before its time: %+v", told.Hung)
	}
	if look(1); len(told.Hung) != 2 || told.Hung[1].Rank != 1 || told.Hung[1].State != 'S' || told.Watched {
		t.Errorf("after it: %+v", told)
	}
}

// TestADoneRankEnds: a program that said that it is done, and returned, but for a thread that never ends, does not keep its task; a failed one
// stays failed.
func TestADoneRankEnds(t *testing.T) { eachWay(t, testADoneRankEnds) }

func testADoneRankEnds(t *testing.T, w *world, make func(func(*engine.Replica), ...string) *replica) {
	python := "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Fatal("no python3 of the system here; make test installs it")
	}
	r := make(several(2), python, "-c", `import fermi, threading
fermi.init()
fermi.report(1)
if fermi.rank() == 1:
    fermi.close()
    threading.Thread(target=threading.Event().wait).start()
print("returned", flush=True)`)
	touch(t, r.dir, fileBrief)
	if e := r.run(); e.Reason != engine.ReasonSucceeded || e.Code != 0 {
		t.Errorf("%+v", e)
	}
	said := 0
	for _, line := range r.lines() {
		if strings.Contains(line, "rank 1: it is done, but its process did not end") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("said %d times: %q", said, r.lines())
	}
}
