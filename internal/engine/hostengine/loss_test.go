package hostengine

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/fault"
)

func TestLauncherKilled(t *testing.T) {
	// A tree with a grandchild that left its session.
	tree := []string{"/bin/sh", "-c", "setsid sleep 1000 & sleep 1000"}
	for _, tc := range []struct {
		name     string
		noGroup  bool
		restart  bool // the server was away when it happened
		env      map[string]string
		wantNone bool // no user process was started
	}{
		{name: "cgroup"},
		{name: "mark only", noGroup: true},
		{name: "while the server was away", restart: true},
		{name: "before go", env: map[string]string{"NOGO": "1"}, wantNone: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHouse(t)
			e, end := h.open()
			r := replicaOf(taskName(), 0, tc.env, tree...)
			h.start(e, r)
			dir := e.dirs.of(r.Name)
			if tc.wantNone {
				eventually(t, "the launcher is up", func() bool { return record.Exists(dir, record.FileLauncher) })
			} else {
				h.await(e, r, engine.StateRunning)
			}
			if tc.noGroup {
				if err := os.Remove(filepath.Join(dir, cgroup.File)); err != nil && cgroup.Detect().Version > 0 {
					t.Fatal(err)
				}
			}
			if tc.restart {
				end()
			}
			launcher := h.launcher(r)
			if err := launcher.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if tc.restart {
				eventually(t, "the launcher is dead", func() bool { return !launcher.Alive() })
				e, _ = h.open()
			}
			o := h.await(e, r, engine.StateDone)
			if o.Exit == nil || o.Exit.Reason != engine.ReasonLauncherLost || o.Exit.Code != -1 || o.Exit.Cause != engine.CauseLauncherKilled {
				t.Errorf("exit %+v", o.Exit)
			}
			if !tc.wantNone && h.child(r).Alive() {
				t.Error("the user's process lives on")
			}
			if marked, _ := killMarked(r.Name); len(marked) > 0 {
				t.Errorf("processes %v live on", marked)
			}
			if n := countLines(dir, "ran"); n > 1 || tc.wantNone && n > 0 {
				t.Errorf("ran %d times", n)
			}
		})
	}
}

func TestLauncherKilledAfterExit(t *testing.T) {
	h := newHouse(t)
	e, _ := h.open()
	r := replicaOf(taskName(), 0, map[string]string{"DEAF": "1"}, "/bin/true")
	h.start(e, r)
	o := h.await(e, r, engine.StateDone) // given up after five
	if o.Exit.Reason != engine.ReasonSucceeded {
		t.Errorf("exit %+v", o.Exit)
	}
	var done record.Done
	if ok, err := record.Read(e.dirs.of(r.Name), record.FileDone, &done); !ok || err != nil || done.Incomplete == "" {
		t.Errorf("done %+v, %v, %v", done, ok, err)
	}
	if n := countLines(e.dirs.of(r.Name), "locked"); n != 1+maxSpawns {
		t.Errorf("%d launchers", n)
	}
}

func TestLauncherDiesBeforeTheLock(t *testing.T) {
	h := newHouse(t)
	e, _ := h.open()
	r := replicaOf(taskName(), 0, map[string]string{"CRASH": "2"}, "/bin/true")
	h.start(e, r)
	if o := h.await(e, r, engine.StateDone); o.Exit.Reason != engine.ReasonSucceeded {
		t.Errorf("exit %+v", o.Exit)
	}
	if begun, ran := countLines(e.dirs.of(r.Name), "begun"), countLines(e.dirs.of(r.Name), "ran"); begun != 3 || ran != 1 {
		t.Errorf("begun %d, ran %d", begun, ran)
	}
}

func TestServerDiesBeforeTheLauncher(t *testing.T) {
	h := newHouse(t)
	e, end := h.open()
	r := replicaOf(taskName(), 0, nil, "/bin/true")
	if err := e.create(r); err != nil { // the folder, and no line further
		t.Fatal(err)
	}
	end()
	e, _ = h.open()
	if o := h.await(e, r, engine.StateDone); o.Exit.Reason != engine.ReasonSucceeded {
		t.Errorf("exit %+v", o.Exit)
	}
}

func TestNoLauncherAtAll(t *testing.T) {
	h := newHouse(t)
	h.exe = "/no/such/program"
	e, _ := h.open()
	r := replicaOf(taskName(), 0, nil, "/bin/true")
	h.start(e, r)
	o := h.await(e, r, engine.StateDone)
	if o.Exit.Reason != engine.ReasonLauncherLost || o.Exit.Message == "" || o.Exit.Cause != engine.CauseLauncherNotStarted {
		t.Errorf("exit %+v", o.Exit)
	}
	h.checkRemove(e, r)
}

func TestReboot(t *testing.T) {
	h := newHouse(t)
	e, end := h.open()
	end()
	// A stranger has the pid that the launcher had before the machine went down.
	stranger := exec.Command(sleeper[0], sleeper[1:]...)
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()
	p, err := record.Describe(stranger.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	old := p
	old.BootID = "00000000-0000-0000-0000-000000000000"

	r := replicaOf(taskName(), 0, nil, "/bin/true")
	if err := e.create(r); err != nil {
		t.Fatal(err)
	}
	dir := e.dirs.of(r.Name)
	for file, v := range map[string]any{
		record.FileLauncher: old, record.FileGo: record.Go{Epoch: 1, Attempt: 1},
		record.FileStart: record.Start{Process: old, At: time.Now()},
	} {
		if err := record.Write(dir, file, v); err != nil {
			t.Fatal(err)
		}
	}
	e, _ = h.open()
	o := h.await(e, r, engine.StateDone)
	if o.Exit.Reason != engine.ReasonLauncherLost || o.Exit.Cause != engine.CauseNodeRestarted || !strings.Contains(o.Exit.Message, "restarted") {
		t.Errorf("exit %+v", o.Exit)
	}
	if !p.Alive() {
		t.Error("a stranger was killed")
	}
	if n := countLines(dir, "ran"); n != 0 {
		t.Errorf("ran %d times", n)
	}
}

func TestStopBeforeTheLauncherIsUp(t *testing.T) {
	h := newHouse(t)
	e, _ := h.open()
	r := replicaOf(taskName(), 0, map[string]string{"GATE": "1"}, sleeper...)
	h.start(e, r)
	for range 2 {
		if err := e.Stop(context.Background(), r.Name, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Remove(context.Background(), r.Name); !fault.Is(err, fault.Conflict) {
		t.Errorf("Remove before the end: %v", err)
	}
	if err := os.WriteFile(filepath.Join(e.dirs.of(r.Name), "gate"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := h.await(e, r, engine.StateDone)
	if o.Exit.Reason != engine.ReasonStopped || !o.Started.IsZero() || countLines(e.dirs.of(r.Name), "ran") != 0 {
		t.Errorf("observed %+v", o)
	}
}

func TestStopTheRunning(t *testing.T) {
	h := newHouse(t)
	e, _ := h.open()
	r := replicaOf(taskName(), 0, nil, sleeper...)
	h.start(e, r)
	h.await(e, r, engine.StateRunning)
	child := h.child(r)
	if err := e.Stop(context.Background(), r.Name, time.Second); err != nil {
		t.Fatal(err)
	}
	if o := h.await(e, r, engine.StateDone); o.Exit.Reason != engine.ReasonStopped {
		t.Errorf("exit %+v", o.Exit)
	}
	if child.Alive() {
		t.Error("it lives on")
	}
	if err := e.Stop(context.Background(), r.Name, 0); err != nil {
		t.Errorf("Stop after the end: %v", err)
	}
	if record.Exists(e.dirs.of("task-nobody-worker-0-1"), "") {
		t.Error("a folder for nobody")
	}
	if err := e.Stop(context.Background(), "task-nobody-worker-0-1", 0); err != nil {
		t.Errorf("Stop of nobody: %v", err)
	}
}

func TestSweep(t *testing.T) {
	h := newHouse(t)
	root := filepath.Join(h.dir, "replicas")
	for _, d := range []string{".trash-a", ".trash-b/output", ".new-old", ".new-young"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(root, ".new-old"), past, past); err != nil {
		t.Fatal(err)
	}
	h.open()
	eventually(t, "only the young one is left", func() bool {
		left, _ := os.ReadDir(root)
		return len(left) == 1 && left[0].Name() == ".new-young"
	})
}

func TestGarbledRecords(t *testing.T) {
	h := newHouse(t)
	e, end := h.open()
	end()
	torn := replicaOf(taskName(), 0, nil, "/bin/true")
	whole := replicaOf(taskName(), 1, nil, "/bin/true")
	for _, r := range []engine.Replica{torn, whole} {
		if err := e.create(r); err != nil {
			t.Fatal(err)
		}
	}
	// One whose spec is lost is left alone; one whose launcher's record is lost has begun and is over.
	if err := os.WriteFile(filepath.Join(e.dirs.of(torn.Name), record.FileReplica), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(e.dirs.of(whole.Name), record.FileLauncher), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e, _ = h.open()
	if got := e.Replicas(torn.TaskID); len(got) != 0 {
		t.Errorf("adopted %v", got)
	}
	if err := e.Start(context.Background(), torn); !fault.Is(err, fault.Internal) {
		t.Errorf("Start on it: %v", err)
	}
	if o := h.await(e, whole, engine.StateDone); o.Exit.Reason != engine.ReasonLauncherLost {
		t.Errorf("exit %+v", o.Exit)
	}
}

func TestBadNames(t *testing.T) {
	h := newHouse(t)
	e, _ := h.open()
	for _, name := range []engine.Name{"", "..", "a/b", ".new-x", "名"} {
		r := replicaOf("task-x", 0, nil, "/bin/true")
		r.Name = name
		if err := e.Start(context.Background(), r); !fault.Is(err, fault.Invalid) {
			t.Errorf("Start(%q) = %v", name, err)
		}
		if err := e.Stop(context.Background(), name, 0); err != nil {
			t.Errorf("Stop(%q) = %v", name, err)
		}
		if err := e.Remove(context.Background(), name); err != nil {
			t.Errorf("Remove(%q) = %v", name, err)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(h.dir, "replicas")); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}
