package launch

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/link"
)

// standbyScript says how it came to be. In generation 1 rank 1 fails once it may and rank 0 never ends and
// leaves an orphan; in generation 2 rank 1 is killed; generation 3 ends well.
const standbyScript = `
import os, signal, subprocess, sys, time
how = "forked" if "decimal" in sys.modules else "fresh"
at = os.environ["FERMI_GENERATION"] + "." + os.environ["RANK"]
own = os.getsid(0) == os.getpid() and os.read(0, 1) == b"" and os.getpriority(os.PRIO_PROCESS, 0) == int(os.environ["NICE"])
print(at, how, own, sys.argv[1:], os.getcwd() == os.environ["PWD"], "FERMI_STANDBY_PRELOAD" in os.environ, file=sys.stderr if at == "3.1" else sys.stdout, flush=True)
if at[0] == "1":
    if at == "1.0":
        subprocess.Popen(["sh", "-c", "trap '' TERM; (while :; do sleep 0.1; done) &"], start_new_session=True)
    while at == "1.0" or not os.path.exists("die"):
        time.sleep(0.01)
    sys.exit(7)
if at == "2.0":
    open("up", "w").close()
    time.sleep(1000)
if at == "2.1":
    while not os.path.exists("up"):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
`

// scripted is a replica of two ranks that runs the script with these options of Python.
func scripted(t *testing.T, make func(func(*engine.Replica), ...string) *replica, wish *api.Standby, options ...string) (r *replica, folder string) {
	t.Helper()
	python := "/usr/bin/python3" // another one on the PATH may be a script that looks for an interpreter
	if _, err := os.Stat(python); err != nil {
		t.Fatal("no python3 of the system here; make test installs it")
	}
	folder, err := os.MkdirTemp("/tmp", "f")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	if err := os.WriteFile(filepath.Join(folder, "train.py"), []byte(standbyScript), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	nice, err := process.OwnNice()
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		nice = 0 // ours is that of a server, see launch
	}
	r = make(func(s *engine.Replica) {
		s.Ranks, s.Standby, s.Code = 2, wish, &api.Code{Folder: folder}
		s.Env = []api.EnvVar{{Name: "NICE", Value: strconv.Itoa(nice)}}
	}, slices.Concat([]string{python}, options, []string{"train.py", "a b"})...)
	return r, folder
}

// logged waits until the launcher said so in its own log.
func (r *replica) logged(text string) {
	r.w.t.Helper()
	eventually(r.w.t, text, func() bool {
		log, _ := os.ReadFile(filepath.Join(r.dir, record.FileOwnLog))
		return bytes.Contains(log, []byte(text))
	})
}

// generations runs the script through all of them and gives what it said.
func (r *replica) generations(folder string, beforeTheFailure func()) []string {
	t := r.w.t
	t.Helper()
	l := r.launch()
	r.generation(1, true)
	r.ranks("generation 1", func(s link.Ranks) bool { return s.Generation == 1 })
	eventually(t, "both say how they came to be", func() bool { return len(r.lines()) == 2 })
	beforeTheFailure()
	if err := os.WriteFile(filepath.Join(folder, "die"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for n := int64(1); n < 3; n++ {
		said := r.ranks("the failure", func(s link.Ranks) bool { return s.Generation == n && s.Failed != nil })
		want := link.RankExit{Rank: 1, Code: 7, Reason: engine.ReasonNonZero}
		if n == 2 {
			want = link.RankExit{Rank: 1, Code: 137, Signal: "SIGKILL", Reason: engine.ReasonSignaled}
		}
		want.At, want.Diagnosis = said.Failed.At, said.Failed.Diagnosis
		if d := cmp.Diff(want, *said.Failed); d != "" {
			t.Error(d)
		}
		r.generation(n+1, true)
	}
	if err := l.wait(); err != nil {
		t.Fatal(err)
	}
	if e := r.exit(); e.Reason != engine.ReasonSucceeded {
		t.Errorf("%+v", e)
	}
	if left := r.marked(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	got := r.lines()
	slices.Sort(got)
	return got
}

func saidBy(one, later string) []string {
	rest := " True ['a b'] True False"
	return []string{"E:3.1 " + later + rest, "O:1.0 " + one + rest, "O:1.1 " + one + rest, "O:2.0 " + later + rest, "O:2.1 " + later + rest, "O:3.0 " + later + rest}
}

// TestStandby: from the second generation on ranks are forked, and are what fresh ones would be.
func TestStandby(t *testing.T) {
	eachWay(t, func(t *testing.T, w *world, make func(func(*engine.Replica), ...string) *replica) {
		r, folder := scripted(t, make, &api.Standby{Preload: []string{"decimal"}})
		got := r.generations(folder, func() { r.logged("standby ready") })
		if d := cmp.Diff(saidBy("fresh", "forked"), got); d != "" {
			t.Error(d)
		}
	})
}

// TestNoStandby: whatever a standby can't do, a fresh interpreter does.
func TestNoStandby(t *testing.T) {
	eachWay(t, func(t *testing.T, w *world, make func(func(*engine.Replica), ...string) *replica) {
		refused, folder := scripted(t, make, &api.Standby{Preload: []string{"decimal"}}, "-X", "utf8")
		got := refused.generations(folder, func() { refused.logged("standby ready") })
		if d := cmp.Diff(saidBy("fresh", "fresh"), got); d != "" {
			t.Error(d)
		}
		refused.logged("refused")
		off, folder := scripted(t, make, &api.Standby{Preload: []string{"decimal"}, Disabled: true})
		if d := cmp.Diff(saidBy("fresh", "fresh"), off.generations(folder, func() {})); d != "" {
			t.Error(d)
		}
	})
}

// TestStandbyKilled: one that was killed is replaced beside the next generation, and the one after it is
// forked again.
func TestStandbyKilled(t *testing.T) {
	w := newWorld(t)
	r, folder := scripted(t, w.replica, &api.Standby{Preload: []string{"decimal"}})
	got := r.generations(folder, func() {
		r.logged("standby ready")
		for _, pid := range r.marked() {
			if line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline")); bytes.Contains(line, []byte("fermi.standby")) {
				_ = unix.Kill(pid, unix.SIGKILL)
				eventually(t, "it is gone", func() bool { return !slices.Contains(r.marked(), pid) })
			}
		}
	})
	if got[3] != saidBy("fresh", "fresh")[3] {
		t.Error(got)
	}
}

const stopScript = `
import os, time
import fermi
fermi.init()
step = 1
print("asks", fermi.should_stop(step), flush=True)
while not fermi.should_stop(step):
    step += 1
    time.sleep(0.01)
print("saves", fermi.should_checkpoint(step), flush=True)
fermi.close()
`

// TestStopIsHeard: a script that asks the SDK whether to stop is not ended by SIGTERM in the middle of a
// step, but saves and ends by itself.
func TestStopIsHeard(t *testing.T) {
	eachWay(t, func(t *testing.T, w *world, make func(func(*engine.Replica), ...string) *replica) {
		r, folder := scripted(t, make, nil)
		if err := os.WriteFile(filepath.Join(folder, "train.py"), []byte(stopScript), 0o644); err != nil {
			t.Fatal(err)
		}
		l := r.launch()
		r.goes()
		eventually(t, "both ask", func() bool { return len(r.lines()) == 2 })
		if err := w.server.hub.Stop(r.spec.Name, time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := l.wait(); err != nil {
			t.Fatal(err)
		}
		got := r.lines()
		slices.Sort(got)
		if d := cmp.Diff([]string{"O:asks False", "O:asks False", "O:saves True", "O:saves True"}, got); d != "" {
			t.Error(d)
		}
		if e := r.exit(); e.Code != 0 || e.Reason != engine.ReasonStopped {
			t.Errorf("%+v", e)
		}
	})
}
