package launch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
)

const testUID = 64991

// walled is a replica whose process runs as testUID; the test is skipped where no wall can be built.
func (w *world) walled(change func(*engine.Replica), command ...string) *replica {
	w.t.Helper()
	if _, err := inside.Probe(testUID, []string{w.dir}, w.dir, 0); err != nil {
		w.t.Skip("no walls here:", err)
	}
	r := w.replica(func(s *engine.Replica) {
		s.UID = testUID
		if change != nil {
			change(s)
		}
	}, command...)
	if err := record.Write(r.dir, record.FileEndpoint, record.Link{Endpoints: filepath.Join(w.dir, "endpoints"), Tenant: record.Tenant{UID: testUID, Hide: []string{w.dir}}, Folders: r.granted()}); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// granted are the folders that it may use: those of its world, or its own code folder.
func (r *replica) granted() []api.NamedFolder {
	if code := r.spec.Code; r.w.folders == nil && code != nil && filepath.IsAbs(code.Folder) {
		return []api.NamedFolder{{Name: "code", Path: code.Folder}}
	}
	return r.w.folders
}

// TestBehindAWall looks from inside: who one is, what one sees, what comes out.
func TestBehindAWall(t *testing.T) {
	w := newWorld(t)
	host := filepath.Join("/dev/shm", "host-"+filepath.Base(w.dir))
	if err := os.WriteFile(host, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(host)
	r := w.walled(func(s *engine.Replica) { s.Resources = api.Resources{Memory: 64 << 20, SharedMemory: 8 << 20} }, "sh", "-c", `
		echo "id $(id -u):$(id -g):$(id -G)"
		grep -E '^(NoNewPrivs|CapEff|CapBnd|CapInh|CapPrm|CapAmb)' /proc/self/status | tr -d '\t'
		echo "pids $(ls -d /proc/[0-9]* | wc -l)"
		echo "shm $(ls /dev/shm | wc -l) $(df --output=size -B1 /dev/shm | tail -1 | tr -d ' ')"
		echo "home $HOME"; touch $HOME/x /tmp/y /var/tmp/z "$TMPDIR/w" here
		echo "folder $(ls `+w.dir+`) $(ls `+w.dir+`/* | tr '\n' ' ')"
		echo kept > $FERMI_OUTPUT/f; cat $FERMI_HP_FILE
		echo "fds $(ls /proc/self/fd | tr '\n' ' ')"
		exit 3`)
	if exit := r.run(); exit.Code != 3 || exit.Reason != engine.ReasonNonZero || exit.CPUTime == 0 {
		t.Errorf("exit: %+v", exit)
	}
	got := strings.Join(r.lines(), "\n")
	for _, want := range []string{
		"id 64991:64991:64991", "NoNewPrivs:1", "CapEff:0000000000000000", "CapBnd:0000000000000000", "CapPrm:0000000000000000",
		"shm 1 8388608", "folder " + string(r.spec.Name) + " access code home hyperparameters.json output tool", "home " + r.dir + "/home", "O:{}",
		"fds 0 1 2 3 ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if s, ok := r.stored("f"); !ok || s != "kept\n" {
		t.Errorf("output: %q %v", s, ok)
	}
	for _, f := range []string{"home/x", "tmp/y", "var-tmp/z", "tmp/w", "code/here"} {
		if _, err := os.Stat(filepath.Join(r.dir, f)); err != nil {
			t.Error(err)
		}
	}
}

// TestEndsComeThroughTheWall: codes and signals bit by bit, also of orphans' parents.
func TestEndsComeThroughTheWall(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		script, signal, reason string
		code                   int
	}{
		{"exit 0", "", engine.ReasonSucceeded, 0},
		{"exit 255", "", engine.ReasonNonZero, 255},
		{"kill -9 $$", "SIGKILL", engine.ReasonSignaled, 137},
		{"kill -SEGV $$", "SIGSEGV", engine.ReasonSignaled, 139},
		{"kill -TERM $$", "SIGTERM", engine.ReasonSignaled, 143},
		{"(trap '' TERM; setsid sleep 1000 &) ; (sleep 0.05; exit 9) & exit 7", "", engine.ReasonNonZero, 7},
	} {
		r := w.walled(func(s *engine.Replica) { s.StopGrace = api.Duration(50 * time.Millisecond) }, "sh", "-c", c.script)
		exit := r.run()
		if exit.Code != c.code || exit.Signal != c.signal || exit.Reason != c.reason {
			t.Errorf("%q: %+v", c.script, exit)
		}
		if left := r.marked(); len(left) > 0 {
			t.Errorf("%q left %v", c.script, left)
		}
	}
}

// TestFaultsThroughTheWall: what can't start says why, as without a wall.
func TestFaultsThroughTheWall(t *testing.T) {
	w := newWorld(t)
	closed := filepath.Join(w.dir, "closed")
	home, err := os.MkdirTemp("/var/tmp", "fh")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	if err := errors.Join(os.Chmod(home, 0o755), os.MkdirAll(closed, 0o700), os.Mkdir(filepath.Join(home, "closed"), 0o700)); err != nil {
		t.Fatal(err)
	}
	w.folders = []api.NamedFolder{{Name: "home", Path: home}, {Name: "own", Path: closed}, {Name: "tmp", Path: filepath.Dir(w.dir)}, {Name: "still", Path: home, ReadOnly: true}, {Name: "moved", Path: home, Real: "/var/elsewhere"}}
	for _, c := range []struct {
		change func(*engine.Replica)
		want   string
		code   int
	}{
		{func(s *engine.Replica) { s.Command = []string{"no-such-command"} }, "was not found", 127},
		{func(s *engine.Replica) { s.Command = []string{"/etc"} }, "is a folder", 126},
		{func(s *engine.Replica) { s.Command = []string{"/etc/passwd"} }, "can't be executed", 126},
		{func(s *engine.Replica) { s.WorkingDir = "nowhere" }, "nowhere", 126},
		{func(s *engine.Replica) { s.Code = &api.Code{Folder: "/root"} }, "FolderNotAllowed", 126},
		{func(s *engine.Replica) { s.Code = &api.Code{Folder: "/"} }, "FolderNotAllowed", 126},
		{func(s *engine.Replica) { s.Code = &api.Code{Folder: "other/x"} }, "FolderNotAllowed", 126},
		{func(s *engine.Replica) { s.Code = &api.Code{Folder: "home/../x"} }, "FolderNotAllowed", 126},
		{func(s *engine.Replica) { s.Code = &api.Code{Folder: "home/nowhere"} }, "code folder", 126},
		{func(s *engine.Replica) { s.Code = &api.Code{Folder: "home/closed"} }, "code folder", 126},
		{func(s *engine.Replica) { s.Code = &api.Code{Folder: "own"} }, "code folder", 126},   // in what is hidden
		{func(s *engine.Replica) { s.Code = &api.Code{Folder: "tmp/x"} }, "code folder", 126}, // has in it what is hidden
		{func(s *engine.Replica) { s.Code = &api.Code{Folder: "moved"} }, "code folder", 126},
		{func(s *engine.Replica) { s.Code, s.CheckpointFolder = &api.Code{Folder: "still"}, "ckpt" }, "read-only", 126},
	} {
		r := w.walled(c.change, "true")
		exit := r.run()
		if exit.Code != c.code || exit.Reason != engine.ReasonStartFailed || !strings.Contains(exit.Message, c.want) {
			t.Errorf("%+v, not %q", exit, c.want)
		}
	}
}

// TestStopThroughTheWall: SIGTERM reaches the command once, SIGKILL everything.
func TestStopThroughTheWall(t *testing.T) {
	w := newWorld(t)
	r := w.walled(nil, "sh", "-c",
		`trap 'echo asked' TERM; (trap '' TERM; echo up; while :; do sleep 0.05; done) & while :; do wait; done`)
	l := r.launch()
	r.goes()
	eventually(t, "up", func() bool { return strings.Contains(strings.Join(r.lines(), " "), "O:up") })
	_ = unix.Kill(l.cmd.Process.Pid, unix.SIGTERM)
	eventually(t, "asked", func() bool { return strings.Contains(strings.Join(r.lines(), " "), "O:asked") })
	if err := w.server.hub.Stop(r.spec.Name, 0); err != nil { // its grace is over
		t.Fatal(err)
	}
	if err := l.wait(); err != nil {
		t.Fatal(err)
	}
	if exit := r.exit(); exit.Reason != engine.ReasonStopped || exit.Signal != "SIGKILL" {
		t.Errorf("%+v", exit)
	}
	if n := strings.Count(strings.Join(r.lines(), " "), "O:asked"); n != 1 {
		t.Errorf("asked %d times: %v", n, r.lines())
	}
	if left := r.marked(); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// TestLinksOfTenantsLeadNowhere: outputs are read with the tenant's rights alone.
func TestLinksOfTenantsLeadNowhere(t *testing.T) {
	w := newWorld(t)
	secret := filepath.Join(w.dir, "admin")
	if err := errors.Join(os.Mkdir(secret, 0o755), os.WriteFile(filepath.Join(secret, "token"), []byte("hidden"), 0o644)); err != nil {
		t.Fatal(err)
	}
	shared, err := os.MkdirTemp("/var/tmp", "fl")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(shared)
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	w.folders = []api.NamedFolder{{Name: "shared", Path: shared}}
	for _, folder := range []string{"", shared} {
		r := w.walled(func(s *engine.Replica) {
			s.OutputLogs = "logs"
			if folder != "" {
				s.Code = &api.Code{Folder: folder}
			}
		}, "sh", "-c", `ln -s `+secret+` logs; ln -s `+secret+`/token $FERMI_OUTPUT/token; echo fine > $FERMI_OUTPUT/own`)
		if exit := r.run(); exit.Code != 0 {
			t.Fatalf("%+v", exit)
		}
		if s, ok := r.stored("own"); !ok || s != "fine\n" {
			t.Errorf("own: %q %v", s, ok)
		}
		for _, name := range []string{"logs/token", "token"} {
			if s, ok := r.stored(name); ok {
				t.Errorf("%s was taken: %q", name, s)
			}
		}
	}
	// The control: without a wall it is the same user, and the link is followed.
	r := w.replica(func(s *engine.Replica) { s.OutputLogs = "logs" }, "ln", "-s", secret, "logs")
	r.run()
	if s, ok := r.stored("logs/token"); !ok || s != "hidden" {
		t.Errorf("control: %q %v", s, ok)
	}
}

// TestRefusedTenant: where nobody is kept apart only the owner starts.
func TestRefusedTenant(t *testing.T) {
	w := newWorld(t)
	r := w.replica(nil, "true")
	if err := record.Write(r.dir, record.FileEndpoint, record.Link{Endpoints: filepath.Join(w.dir, "endpoints"), Tenant: record.Tenant{Refused: true}}); err != nil {
		t.Fatal(err)
	}
	if exit := r.run(); exit.Reason != engine.ReasonStartFailed || !strings.Contains(exit.Message, "所有者") {
		t.Errorf("%+v", exit)
	}
}
