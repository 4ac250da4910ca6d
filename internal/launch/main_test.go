package launch

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/asset"
	"github.com/fermi-cluster/fermi/internal/blob/folder"
	"github.com/fermi-cluster/fermi/internal/blob/logbook"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/cores"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/launch/deed"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/lend"
)

// TestMain lets the test binary be the launcher, as `fermi launch` is, and the command "fermi".
func TestMain(m *testing.M) {
	if dir := os.Getenv("LAUNCH_TEST_DIR"); dir != "" {
		if wordsWait = 5 * time.Second; !record.Exists(dir, fileImpatient) {
			culpritGrace = time.Minute
		}
		if !record.Exists(dir, fileHurried) {
			leaveGrace = time.Minute
		}
		if record.Exists(dir, fileBrief) {
			lingerAfter = time.Second
		}
		token, err := io.ReadAll(os.NewFile(3, "token"))
		if err == nil {
			err = Run(context.Background(), Config{Dir: dir, Token: string(token), GiveUp: 50 * time.Millisecond})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if say := os.Getenv("LAUNCH_TEST_SAY"); say != "" {
		fmt.Println(say, strings.Join(os.Args[1:], " "))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fileImpatient, in a replica's folder, leaves its launcher the usual patience with victims.
const fileImpatient = "impatient"

// fileHurried likewise leaves it the usual patience with ranks that are to leave.
const fileHurried = "hurried"

// fileBrief lets ranks that are done stay for a moment only.
const fileBrief = "brief"

// world is a server's data and the folders of replicas beside it.
type world struct {
	t       *testing.T
	dir     string
	store   *folder.Store
	tokens  *link.Tokens
	archive string
	secrets map[api.SecretRef]string
	server  *server
	epoch   int64
	folders []api.NamedFolder // that replicas behind walls are granted
	data    shelves
}

type server struct {
	hub  *link.Hub
	book *logbook.Book
	stop func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "f")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	store, err := folder.Open(filepath.Join(dir, "blob"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	w := &world{t: t, dir: dir, store: store, tokens: link.NewTokens([]byte("a key of the test"))}
	w.data.Repo = asset.New(store, clock.Real, 0)
	w.serve()
	return w
}

// serve starts a server with the next epoch; endpoints then names it.
func (w *world) serve() {
	w.t.Helper()
	w.epoch++
	quiet := slog.New(slog.DiscardHandler)
	s := &server{book: logbook.New(logbook.Config{Blob: w.store, Log: quiet, Clock: clock.Real})}
	s.hub = link.NewHub(link.HubConfig{
		Blob: w.store, Logs: s.book, Tokens: w.tokens, Log: quiet, Clock: clock.Real,
		Fetched: link.Fetched{ArchiveOf: func(context.Context, string) (string, error) { return w.archive, nil }},
		Secrets: link.Secrets{SecretsOf: func(context.Context, string, string) (map[api.SecretRef]string, error) { return w.secrets, nil }},
	})
	s.hub.Lead(w.epoch)
	sock := filepath.Join(w.dir, fmt.Sprintf("s%d", w.epoch))
	l, err := net.Listen("unix", sock)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.book.Run(ctx) })
	wg.Go(func() { _ = s.hub.Serve(ctx, l, lend.NewDesk(&w.data, w.data.names).Register) })
	s.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	w.t.Cleanup(s.stop)
	w.server = s
	if err := os.WriteFile(filepath.Join(w.dir, "endpoints"), []byte("unix://"+sock+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// serial makes task ids unique: a name is the mark by which a launcher finds its tree.
var serial atomic.Int64

// replica is a folder as the engine makes it.
type replica struct {
	w    *world
	dir  string
	spec engine.Replica
}

// epochs is where leaders enter their epochs.
func (w *world) epochs() string { return filepath.Join(w.dir, record.DirEpochs) }

func (w *world) replica(change func(*engine.Replica), command ...string) *replica {
	w.t.Helper()
	spec := engine.Replica{
		TaskID: fmt.Sprintf("task-%dx%d", os.Getpid(), serial.Add(1)), Task: "my-task", Project: "default", Role: "worker", Attempt: 1, Ranks: 1,
		Zone: "local", Node: "here", Command: command, StopGrace: api.Duration(30 * time.Second),
	}
	if change != nil {
		change(&spec)
	}
	spec.Name = engine.NameOf(spec.TaskID, spec.Role, spec.Index, spec.Attempt)
	r := &replica{w: w, dir: filepath.Join(w.dir, string(spec.Name)), spec: spec}
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	for file, v := range map[string]any{
		record.FileReplica: spec, record.FileEndpoint: record.Link{Endpoints: filepath.Join(w.dir, "endpoints"), Epochs: w.epochs()},
	} {
		if err := record.Write(r.dir, file, v); err != nil {
			w.t.Fatal(err)
		}
	}
	return r
}

// launched is one launcher process.
type launched struct {
	t    *testing.T
	cmd  *exec.Cmd
	err  error
	done chan struct{}
}

func (r *replica) launch() *launched {
	r.w.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		r.w.t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		r.w.t.Fatal(err)
	}
	out, err := os.OpenFile(filepath.Join(r.dir, record.FileOwnLog), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		r.w.t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(exe)
	cmd.Env = []string{"LAUNCH_TEST_DIR=" + r.dir, "PATH=" + os.Getenv("PATH"), "HOME=/", "GORACE=atexit_sleep_ms=0"}
	cmd.ExtraFiles = []*os.File{read}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 { // as a server, which goes before others
		if err := cores.Nice(-5); err != nil {
			r.w.t.Fatal(err)
		}
	}
	if err := cmd.Start(); err != nil {
		r.w.t.Fatal(err)
	}
	read.Close()
	fmt.Fprint(write, r.w.tokens.Mint(r.spec.Name))
	write.Close()
	l := &launched{t: r.w.t, cmd: cmd, done: make(chan struct{})}
	go func() {
		l.err = cmd.Wait()
		close(l.done)
	}()
	r.w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-l.done
		r.killMarked()
		os.RemoveAll(record.SharedMemory(r.spec.Name)) // a killed launcher leaves it to the engine
		if r.w.t.Failed() {
			log, _ := os.ReadFile(filepath.Join(r.dir, record.FileOwnLog))
			r.w.t.Logf("launcher.log of %s:\n%s", r.spec.Name, log)
		}
	})
	return l
}

// killMarked ends what a failed test left behind.
func (r *replica) killMarked() {
	for _, pid := range r.marked() {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// marked are the living processes of this replica, without the launcher's helpers.
func (r *replica) marked() []int {
	var pids []int
	for pid, st := range process.ReadAll() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if st.State != 'Z' && !strings.HasPrefix(string(line), deed.Argv0) && process.Marked(pid, []byte("FERMI_REPLICA="+string(r.spec.Name))) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

func (l *launched) wait() error {
	l.t.Helper()
	select {
	case <-l.done:
	case <-time.After(60 * time.Second):
		l.t.Fatal("launcher does not end")
	}
	return l.err
}

// goes says go as soon as the launcher is attached.
func (r *replica) goes() {
	r.w.t.Helper()
	eventually(r.w.t, "go", func() bool { return r.w.server.hub.Go(r.spec.Name, r.spec.Attempt, r.first()) == nil })
}

// first is the generation of a replica that is alone.
func (r *replica) first() link.Generation {
	return link.Generation{Number: 1, Membership: link.Membership{World: r.spec.Ranks, Lead: "127.0.0.1:4000"}}
}

// run is a whole life.
func (r *replica) run() engine.Exit {
	r.w.t.Helper()
	l := r.launch()
	r.goes()
	if err := l.wait(); err != nil {
		r.w.t.Fatal(err)
	}
	return r.exit()
}

func (r *replica) exit() engine.Exit {
	r.w.t.Helper()
	var e engine.Exit
	if ok, err := record.Read(r.dir, record.FileExit, &e); !ok || err != nil {
		r.w.t.Fatal("no exit: ", err)
	}
	return e
}

func (r *replica) done() record.Done {
	r.w.t.Helper()
	var d record.Done
	if ok, err := record.Read(r.dir, record.FileDone, &d); !ok || err != nil {
		r.w.t.Fatal("not done: ", err)
	}
	return d
}

func (r *replica) has(file string) func() bool {
	return func() bool { return record.Exists(r.dir, file) }
}

// lines are those the server has, "O:text" or "E:text", "…" for a part.
func (r *replica) lines() []string {
	r.w.t.Helper()
	var got []string
	if err := r.w.server.book.Read(context.Background(), r.spec.TaskID, logbook.ReadOptions{}, func(_ string, l logbook.Line) error {
		s := string(l.Stream) + ":" + string(l.Text)
		if l.Partial {
			s += "…"
		}
		got = append(got, s)
		return nil
	}); err != nil {
		r.w.t.Fatal(err)
	}
	return got
}

// stored is an output file at the server.
func (r *replica) stored(path string) (string, bool) {
	f, _, err := r.w.store.Open(context.Background(), "outputs/"+r.spec.TaskID+"/worker-0/"+path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	return string(data), err == nil
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
