package launch

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/blob"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/process"
)

func sh(script string) []string { return []string{"/bin/sh", "-c", script} }

func TestEnds(t *testing.T) {
	t.Parallel()
	noExec := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(noExec, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	noInterp := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(noInterp, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change  func(*engine.Replica)
		command []string
		want    engine.Exit
		lines   []string
	}{
		"echo":      {nil, []string{"echo", "hello"}, engine.Exit{Reason: engine.ReasonSucceeded}, []string{"O:hello"}},
		"code":      {nil, sh("exit 7"), engine.Exit{Code: 7, Reason: engine.ReasonNonZero}, nil},
		"signal":    {nil, sh("kill -SEGV $$"), engine.Exit{Code: 139, Signal: "SIGSEGV", Reason: engine.ReasonSignaled}, nil},
		"not found": {nil, []string{"no-such-command-here"}, engine.Exit{Code: 127, Reason: engine.ReasonStartFailed}, nil},
		"no file":   {nil, []string{"./nothing"}, engine.Exit{Code: 127, Reason: engine.ReasonStartFailed}, nil},
		"no right":  {nil, []string{noExec}, engine.Exit{Code: 126, Reason: engine.ReasonStartFailed}, nil},
		"no interp": {nil, []string{noInterp}, engine.Exit{Code: 127, Reason: engine.ReasonStartFailed}, nil},
		"no folder": {func(r *engine.Replica) { r.Code = &api.Code{Folder: "/no/such/folder"} }, sh("true"), engine.Exit{Code: 126, Reason: engine.ReasonStartFailed}, nil},
		"timeout": {func(r *engine.Replica) { r.RunTimeout = api.Duration(50 * time.Millisecond) }, []string{"sleep", "1000"},
			engine.Exit{Code: 143, Signal: "SIGTERM", Reason: engine.ReasonTimedOut}, nil},
		"ourselves": {func(r *engine.Replica) { r.Env = []api.EnvVar{{Name: "LAUNCH_TEST_SAY", Value: "it is me"}} },
			[]string{"fermi", "sample"}, engine.Exit{Reason: engine.ReasonSucceeded}, []string{"O:it is me sample"}},
		"both pipes, no newline": {nil, sh("printf 'a\\nb'; printf c >&2"), engine.Exit{Reason: engine.ReasonSucceeded}, []string{"O:a", "O:b", "E:c"}},
		"stdin":                  {nil, sh("cat; echo end"), engine.Exit{Reason: engine.ReasonSucceeded}, []string{"O:end"}},
		"pipe":                   {nil, sh("yes | head -1"), engine.Exit{Reason: engine.ReasonSucceeded}, []string{"O:y"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.replica(c.change, c.command...)
			got := r.run()
			if got.Reason == engine.ReasonStartFailed && (got.Message == "" || r.has(record.FileStart)()) {
				t.Errorf("failed start: message %q, start.json %v", got.Message, r.has(record.FileStart)())
			}
			lines := r.lines()
			if got.Reason != engine.ReasonStartFailed {
				slices.Sort(c.lines)
				slices.Sort(lines)
				if d := cmp.Diff(c.lines, lines); d != "" {
					t.Error(d)
				}
				if got.PeakBytes <= 0 || got.Ran <= 0 || !r.has(record.FileStart)() {
					t.Errorf("peak %d, start.json %v", got.PeakBytes, r.has(record.FileStart)())
				}
			}
			if failed := got.Reason != engine.ReasonSucceeded && got.Reason != engine.ReasonStartFailed && got.Reason != engine.ReasonStopped && got.Reason != engine.ReasonTimedOut; failed != (got.Cause != "") {
				t.Errorf("%s has cause %q", got.Reason, got.Cause)
			}
			got.Message, got.At, got.Ran, got.CPUTime, got.PeakBytes, got.Rank, got.Diagnosis = "", time.Time{}, 0, 0, 0, nil, engine.Diagnosis{}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if d := r.done(); d.Incomplete != "" {
				t.Error(d.Incomplete)
			}
			if st, _ := w.server.hub.State(r.spec.Name); st != engine.StateDone {
				t.Errorf("the hub thinks %s", st)
			}
		})
	}
}

func TestOutputIsKeptByteForByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("x", 40_000)
	file := filepath.Join(w.dir, "in")
	var all strings.Builder
	all.WriteString("bin\xff\x00\x01ary\r\n" + long + "\n\n")
	for i := range 20_000 {
		fmt.Fprintf(&all, "line %d\n", i)
	}
	body := all.String()
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	r := w.replica(nil, "cat", file)
	r.run()
	var got strings.Builder
	lines := r.lines()
	for _, l := range lines {
		text := strings.TrimPrefix(l, "O:")
		if part, ok := strings.CutSuffix(text, "…"); ok {
			got.WriteString(part)
		} else {
			got.WriteString(text + "\n")
		}
	}
	if got.String() != strings.Replace(body, "\r\n", "\n", 1) { // a carriage return before the end of a line means nothing
		t.Fatalf("%d bytes came as %d", len(body), got.Len())
	}
	if d := cmp.Diff([]int{2 + 16384 + 3, 2 + 16384 + 3, 2 + 40000 - 2*16384}, []int{len(lines[1]), len(lines[2]), len(lines[3])}); d != "" {
		t.Error(d)
	}
	if size, _ := os.Stat(filepath.Join(r.dir, record.FileLog)); r.done().LogBytes != size.Size() {
		t.Errorf("%d of %d", r.done().LogBytes, size.Size())
	}
}

func TestEnvironmentOfAProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.replica(func(r *engine.Replica) {
		r.HyperParameters = map[string]any{"learningRate": 0.001, "name": "a b"}
		r.Env = []api.EnvVar{{Name: "MINE", Value: "yes"}, {Name: "FERMI_REPLICA", Value: "forged"}}
	}, sh(`echo "$FERMI_REPLICA $FERMI_TASK_ID $FERMI_HP_LEARNING_RATE $FERMI_HP_NAME $MINE ${CUDA_VISIBLE_DEVICES-unset}"; cat "$FERMI_HP_FILE"; touch "$TMPDIR/x"; echo out > "$FERMI_OUTPUT/o"; ls /proc/self/fd | wc -l; sed -n s/^SigIgn:.//p /proc/self/status`)...)
	r.run()
	lines := r.lines()
	if lines[0] != fmt.Sprintf("O:%s %s 0.001 a b yes ", r.spec.Name, r.spec.TaskID) {
		t.Errorf("%q", lines[0])
	}
	var hp map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(strings.Join(lines[1:len(lines)-2], ""), "O:", "")), &hp); err != nil || hp["name"] != "a b" {
		t.Error(err, hp)
	}
	if got := lines[len(lines)-2]; got != "O:4" { // 0, 1, 2 and ls's own
		t.Errorf("open descriptors: %s", got)
	}
	// What we were born with (nohup, a C library's own signals) is passed on; nothing is added.
	inherited, err := exec.Command("sed", "-n", "s/^SigIgn:.//p", "/proc/self/status").Output()
	if err != nil {
		t.Fatal(err)
	}
	got, err1 := strconv.ParseUint(strings.TrimPrefix(lines[len(lines)-1], "O:"), 16, 64)
	had, err2 := strconv.ParseUint(strings.TrimSpace(string(inherited)), 16, 64)
	if err1 != nil || err2 != nil || got&^had != 0 {
		t.Errorf("ignored signals: %s, inherited %s", lines[len(lines)-1], inherited)
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	const obeys = `trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done`
	const ignores = `trap '' TERM; echo up; while :; do sleep 0.01; done`
	// Twice forked, own session, deaf: only the subreaper still has it.
	const escapes = `setsid sh -c 'trap "" TERM; (trap "" TERM; while :; do sleep 0.01; done) & exit 0'; ` + ignores
	for name, c := range map[string]struct {
		script string
		grace  time.Duration
		how    string
		code   int
		signal string
	}{
		"obeys":            {obeys, time.Minute, "link", 3, ""},
		"ignores":          {ignores, 50 * time.Millisecond, "link", 137, "SIGKILL"},
		"no grace":         {obeys + "; sleep 1000", 0, "link", 0, "any"},
		"record":           {obeys, time.Minute, "record", 3, ""},
		"record alone":     {obeys, time.Minute, "silent record", 3, ""},
		"signal":           {obeys, 0, "signal", 3, ""},
		"escaped children": {escapes, 50 * time.Millisecond, "link", 137, "SIGKILL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.replica(nil, sh(c.script)...)
			l := r.launch()
			r.goes()
			eventually(t, "up", func() bool { return slices.Contains(r.lines(), "O:up") })
			switch c.how {
			case "link":
				if err := w.server.hub.Stop(r.spec.Name, c.grace); err != nil {
					t.Fatal(err)
				}
			case "record", "silent record":
				if err := record.Write(r.dir, record.StopFile(0), record.Stop{Grace: c.grace}); err != nil {
					t.Fatal(err)
				}
			}
			if c.how == "signal" || c.how == "record" {
				for _, sig := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGPIPE, unix.SIGTERM} {
					_ = l.cmd.Process.Signal(sig)
				}
			}
			if err := l.wait(); err != nil {
				t.Fatal(err)
			}
			e := r.exit()
			if e.Reason != engine.ReasonStopped || (c.signal != "any" && (e.Code != c.code || e.Signal != c.signal)) {
				t.Errorf("%+v", e)
			}
			if left := r.marked(); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestStopOfAnOldLeader: an order written, and signalled, by a leader whose time is over ends
// nothing; the same order of the current one does.
func TestStopOfAnOldLeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.replica(nil, sh(`trap 'exit 3' TERM; echo up; while :; do sleep 0.01; done`)...)
	enter := func(epoch int64) {
		if err := record.EnterEpoch(w.epochs(), epoch); err != nil {
			t.Fatal(err)
		}
	}
	order := func(l *launched, epoch int64) {
		if err := record.Write(r.dir, record.StopFile(epoch), record.Stop{Grace: time.Minute}); err != nil {
			t.Fatal(err)
		}
		_ = l.cmd.Process.Signal(unix.SIGTERM)
	}
	enter(8)
	l := r.launch()
	r.goes()
	eventually(t, "up", func() bool { return slices.Contains(r.lines(), "O:up") })
	enter(9)
	enter(8) // one that slept before it entered
	order(l, 8)
	eventually(t, "the refusal", func() bool {
		own, err := os.ReadFile(filepath.Join(r.dir, record.FileOwnLog))
		return err == nil && strings.Contains(string(own), "whose time is over")
	})
	if r.has(record.FileExit)() || len(r.marked()) == 0 {
		t.Fatal("the old leader's stop was obeyed")
	}
	order(l, 9)
	if err := l.wait(); err != nil {
		t.Fatal(err)
	}
	if e := r.exit(); e.Reason != engine.ReasonStopped || e.Code != 3 {
		t.Errorf("%+v", e)
	}
}

// TestRestOfTheTree: the main process ends and leaves children that hold its pipes.
func TestRestOfTheTree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.replica(func(r *engine.Replica) { r.StopGrace = api.Duration(100 * time.Millisecond) },
		sh(`setsid sh -c 'trap "" TERM; (trap "" TERM; exec 2>/dev/null; while :; do sleep 0.01; done) & exit 0'; sleep 1000 & echo end; exit 4`)...)
	if e := r.run(); e.Code != 4 || e.Reason != engine.ReasonNonZero {
		t.Errorf("%+v", e)
	}
	if left := r.marked(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if d := cmp.Diff([]string{"O:end"}, r.lines()); d != "" {
		t.Error(d)
	}
}

// TestNoZombies: orphans that end while the main process lives are reaped at once.
func TestNoZombies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.replica(nil, sh(`for i in 1 2 3 4 5; do (true & exit 0); done; echo up; while [ ! -e "$TMPDIR/end" ]; do sleep 0.01; done`)...)
	l := r.launch()
	r.goes()
	eventually(t, "up", func() bool { return slices.Contains(r.lines(), "O:up") })
	eventually(t, "no zombies", func() bool {
		for _, st := range process.ReadAll() {
			if st.PPID == l.cmd.Process.Pid && st.State == 'Z' {
				return false
			}
		}
		return true
	})
	if err := os.WriteFile(filepath.Join(r.dir, record.DirTmp, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.wait(); err != nil || r.exit().Reason != engine.ReasonSucceeded {
		t.Error(err, r.exit())
	}
}

func TestStopBeforeGo(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"record before", "record", "link"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.replica(nil, sh("echo never")...)
			stop := func() {
				if err := record.Write(r.dir, record.StopFile(0), record.Stop{Grace: time.Second}); err != nil {
					t.Fatal(err)
				}
			}
			if how == "record before" {
				stop()
			}
			l := r.launch()
			switch how {
			case "record":
				eventually(t, "launcher.json", r.has(record.FileLauncher))
				stop()
				_ = l.cmd.Process.Signal(unix.SIGTERM)
			case "link":
				eventually(t, "stop", func() bool { return w.server.hub.Stop(r.spec.Name, 0) == nil })
			}
			if err := l.wait(); err != nil {
				t.Fatal(err)
			}
			if e := r.exit(); e.Reason != engine.ReasonStopped || r.has(record.FileGo)() || r.has(record.FileStart)() {
				t.Errorf("%+v", e)
			}
			if len(r.lines()) > 0 {
				t.Error(r.lines())
			}
		})
	}
}

func TestOneLauncherOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.replica(nil, sh(`echo up; while [ ! -e "$TMPDIR/end" ]; do sleep 0.01; done`)...)
	first := r.launch()
	eventually(t, "locked", func() bool { held, err := record.Locked(r.dir); return held && err == nil })
	for range 3 {
		if err := r.launch().wait(); err != nil {
			t.Errorf("a second launcher: %v", err)
		}
	}
	r.goes()
	eventually(t, "up", func() bool { return slices.Contains(r.lines(), "O:up") })
	if err := os.WriteFile(filepath.Join(r.dir, record.DirTmp, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := first.wait(); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff([]string{"O:up"}, r.lines()); d != "" {
		t.Error(d)
	}
	if err := r.launch().wait(); err != nil { // all is done
		t.Error(err)
	}
}

// TestServerAwayAndBack: the process runs through the server's absence and nothing is lost.
func TestServerAwayAndBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.replica(nil, sh(`echo up; while [ ! -e "$TMPDIR/end" ]; do sleep 0.01; done; seq 1 5000; echo f > $FERMI_OUTPUT/f`)...)
	l := r.launch()
	r.goes()
	eventually(t, "up", func() bool { return slices.Contains(r.lines(), "O:up") })
	w.server.stop()
	if err := os.WriteFile(filepath.Join(r.dir, record.DirTmp, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "exit.json", r.has(record.FileExit))
	if r.has(record.FileDone)() {
		t.Error("done without a server")
	}
	w.serve()
	if err := l.wait(); err != nil {
		t.Fatal(err)
	}
	want := []string{"O:up"}
	for i := range 5000 {
		want = append(want, fmt.Sprintf("O:%d", i+1))
	}
	if d := cmp.Diff(want, r.lines()); d != "" {
		t.Error(d)
	}
	if got, _ := r.stored("f"); got != "f\n" {
		t.Errorf("output %q", got)
	}
}

// TestSecondLauncherHandsOver: the first is killed after the exit; the second starts nothing.
func TestSecondLauncherHandsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.replica(nil, sh(`echo up; while [ ! -e "$TMPDIR/end" ]; do sleep 0.01; done; echo rest; echo f > $FERMI_OUTPUT/f; exit 9`)...)
	l := r.launch()
	r.goes()
	eventually(t, "up", func() bool { return slices.Contains(r.lines(), "O:up") })
	w.server.stop()
	if err := os.WriteFile(filepath.Join(r.dir, record.DirTmp, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "exit.json", r.has(record.FileExit))
	_ = l.cmd.Process.Kill()
	_ = l.wait()
	// As if it had been killed in the middle of a write.
	f, err := os.OpenFile(filepath.Join(r.dir, record.FileLog), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, "2026-01-01T00:00:00.0")
	f.Close()
	w.serve()
	if err := r.launch().wait(); err != nil {
		t.Fatal(err)
	}
	if e := r.exit(); e.Code != 9 {
		t.Errorf("%+v", e)
	}
	if d := cmp.Diff([]string{"O:up", "O:rest"}, r.lines()); d != "" {
		t.Error(d)
	}
	if got, _ := r.stored("f"); got != "f\n" {
		t.Errorf("output %q", got)
	}
	if d := r.done(); d.OutputFiles != 1 || d.OutputBytes != 2 || d.Incomplete != "" {
		t.Errorf("%+v", d)
	}
}

// TestLostLauncherIsNotReplaced: after a go without an exit a second launcher must touch nothing.
func TestLostLauncherIsNotReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.replica(nil, sh(`echo up; exec sleep 1000`)...)
	l := r.launch()
	r.goes()
	// Only then does nothing more go into the pipe that dies with the launcher.
	eventually(t, "up", func() bool { return r.has(record.FileStart)() && slices.Contains(r.lines(), "O:up") })
	eventually(t, "it sleeps", func() bool { // while it becomes another program nobody knows whose it is
		pids := r.marked()
		return len(pids) == 1 && strings.HasPrefix(process.ProcFile(pids[0], "cmdline"), "sleep")
	})
	_ = l.cmd.Process.Kill()
	_ = l.wait()
	alive := r.marked()
	if err := r.launch().wait(); err == nil {
		t.Error("the second launcher was content")
	}
	if d := cmp.Diff(alive, r.marked()); d != "" || len(alive) == 0 || r.has(record.FileExit)() {
		t.Errorf("touched: %s", d)
	}
	r.killMarked()
}

// TestGiveUp: told to end while the server is away, it says what was not handed over.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.replica(nil, sh(`echo up; while [ ! -e "$TMPDIR/end" ]; do sleep 0.01; done; echo f > $FERMI_OUTPUT/f`)...)
	l := r.launch()
	r.goes()
	eventually(t, "up", func() bool { return slices.Contains(r.lines(), "O:up") })
	w.server.stop()
	if err := os.WriteFile(filepath.Join(r.dir, record.DirTmp, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "exit.json", r.has(record.FileExit))
	eventually(t, "done.json", func() bool {
		_ = l.cmd.Process.Signal(unix.SIGTERM)
		return r.has(record.FileDone)()
	})
	_ = l.wait()
	if d := r.done(); !strings.Contains(d.Incomplete, `"f"`) {
		t.Errorf("%+v", d)
	}
}

func TestOutputsOfAFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := filepath.Join(w.dir, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := w.replica(func(r *engine.Replica) { r.OutputLogs = "tb" },
		sh(`cd $FERMI_OUTPUT; mkdir -p a/b; echo 1 > a/b/c; : > empty; ln -s `+secret+` leak; mkfifo p; mkdir $OLDPWD/tb; echo ev > $OLDPWD/tb/events; exit 5`)...)
	if e := r.run(); e.Code != 5 {
		t.Errorf("%+v", e)
	}
	for path, want := range map[string]string{"a/b/c": "1\n", "empty": "", "logs/events": "ev\n"} {
		if got, ok := r.stored(path); !ok || got != want {
			t.Errorf("%s: %q %v", path, got, ok)
		}
	}
	if _, ok := r.stored("leak"); ok {
		t.Error("a link was followed")
	}
	if d := r.done(); d.OutputFiles != 3 || d.Incomplete != "" {
		t.Errorf("%+v", d)
	}
	if notes := strings.Join(r.lines(), "\n"); !strings.Contains(notes, "leak") {
		t.Error("the link is not mentioned in the log")
	}
}

func tarOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for name, body := range files {
		if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(body)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestCode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files  map[string]string
		dir    string
		own    bool
		reason string
		lines  []string
	}{
		"archive":    {map[string]string{"run.sh": "#!/bin/sh\ncat data\n", "data": "42\n"}, "", true, engine.ReasonSucceeded, []string{"O:42"}},
		"sub folder": {map[string]string{"sub/run.sh": "#!/bin/sh\npwd | sed s,.*/,,\n"}, "sub", true, engine.ReasonSucceeded, []string{"O:sub"}},
		"no folder":  {map[string]string{"run.sh": "x"}, "sub", true, engine.ReasonStartFailed, nil},
		"escape":     {map[string]string{"../run.sh": "x"}, "", true, engine.ReasonStartFailed, nil},
		"not ours":   {map[string]string{"run.sh": "x"}, "", false, engine.ReasonStartFailed, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			digest, _, err := blob.PutContent(context.Background(), w.store, "archives", bytes.NewReader(tarOf(t, c.files)), 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if c.own {
				w.archive = digest
			}
			r := w.replica(func(r *engine.Replica) { r.Code, r.WorkingDir = &api.Code{Archive: digest}, c.dir }, "./run.sh")
			l := r.launch()
			eventually(t, "go or an end", func() bool {
				return w.server.hub.Go(r.spec.Name, 1, r.first()) == nil || r.has(record.FileExit)()
			})
			if err := l.wait(); err != nil {
				t.Fatal(err)
			}
			if e := r.exit(); e.Reason != c.reason {
				t.Errorf("%+v", e)
			}
			if c.lines != nil {
				if d := cmp.Diff(c.lines, r.lines()); d != "" {
					t.Error(d)
				}
			}
		})
	}
}
