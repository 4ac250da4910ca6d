package agent

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/engine/agentengine"
	"github.com/fermi-cluster/fermi/internal/engine/cgroup"
	"github.com/fermi-cluster/fermi/internal/engine/enginetest"
	"github.com/fermi-cluster/fermi/internal/engine/hostengine"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/link"
	"github.com/fermi-cluster/fermi/internal/link/agency"
	"github.com/fermi-cluster/fermi/internal/link/endpoint"
)

// TestMain lets the test binary play the launcher.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "launch" && os.Args[2] == "--dir" {
		syscall.Exit(launcher(os.Args[3]))
	}
	os.Exit(m.Run())
}

// launcher is a small one that keeps to the contract of package record. GATE=1: it waits for the file "gate" before it begins.
func launcher(dir string) int {
	must := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "launcher:", err)
			syscall.Exit(70)
		}
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	token, err := io.ReadAll(os.NewFile(3, "token"))
	must(err)
	var r engine.Replica
	_, err = record.Read(dir, record.FileReplica, &r)
	must(err)
	if string(token) != "token of "+string(r.Name) {
		return 1
	}
	ran := ""
	for _, v := range r.Env {
		if v.Name == "RAN" {
			ran = v.Value
		}
		for v.Name == "GATE" && !record.Exists(dir, "gate") {
			time.Sleep(2 * time.Millisecond)
		}
	}
	var lock *os.File
	for try := 0; lock == nil; try++ {
		if lock, err = record.TryLock(dir); err != nil && try > 50 {
			return 0
		} else if err != nil {
			time.Sleep(2 * time.Millisecond)
		}
	}
	defer lock.Close() // for life: a file that nobody needs any more is closed at the next garbage collection
	runtime.GC()       // or at once
	if record.Exists(dir, record.FileDone) {
		return 0
	}
	must(record.Write(dir, record.FileLauncher, record.Self()))
	done := func(e *engine.Exit) int {
		if e != nil {
			e.At = time.Now()
			must(record.Write(dir, record.FileExit, e))
		}
		must(record.Write(dir, record.FileDone, record.Done{At: time.Now()}))
		return 0
	}
	stopped := func() bool {
		var ends record.Link
		_, err := record.Read(dir, record.FileEndpoint, &ends)
		must(err)
		epoch, err := record.CurrentEpoch(ends.Epochs)
		must(err)
		return record.Exists(dir, record.StopFile(epoch))
	}
	switch {
	case record.Exists(dir, record.FileExit):
		return done(nil)
	case record.Exists(dir, record.FileGo):
		return 1
	case stopped():
		return done(&engine.Exit{Reason: engine.ReasonStopped, Code: 143})
	}
	must(record.Write(dir, record.FileGo, record.Go{Epoch: 1, Attempt: r.Attempt, At: time.Now()}))
	out, err := os.OpenFile(ran, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(err)
	_, err = out.WriteString("x\n")
	must(err)
	must(out.Close())
	cmd := exec.Command(r.Command[0], r.Command[1:]...)
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Setsid: true}
	cmd.Env = append(os.Environ(), "FERMI_REPLICA="+string(r.Name))
	must(cmd.Start())
	child, err := record.Describe(cmd.Process.Pid)
	must(err)
	must(record.Write(dir, record.FileStart, record.Start{Process: child, At: time.Now()}))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case <-stop:
			if stopped() {
				_ = cmd.Process.Kill()
				<-ended
				return done(&engine.Exit{Reason: engine.ReasonStopped, Code: 143})
			}
		case <-ended:
			return done(&engine.Exit{Reason: engine.ReasonSucceeded, Code: cmd.ProcessState.ExitCode()})
		}
	}
}

// machine is one that joined: a folder, its agent's end, and servers that it attaches to over real TLS.
type machine struct {
	t    *testing.T
	dir  string
	exe  string
	hand *agentengine.Hand
	key  []byte
	log  *slog.Logger
}

const nodeName = "n"

func newMachine(t *testing.T) *machine {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "f")
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, dir: dir, exe: exe, key: []byte(strings.Repeat("k", 32)), log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))}
	t.Cleanup(m.clean)
	tokens := sync.Map{}
	m.hand = agentengine.NewHand(agentengine.HandConfig{
		Open: func(epoch int64) (engine.Adapter, error) {
			return hostengine.New(hostengine.Config{
				Dir: dir, Exe: exe, Endpoints: filepath.Join(dir, "endpoints"), Epoch: epoch, Log: m.log,
				Mint: func(name engine.Name) string { t, _ := tokens.Load(name); s, _ := t.(string); return s },
				Inventory: func(context.Context) ([]api.Node, error) {
					return []api.Node{{Meta: api.Meta{Name: nodeName}, Status: api.NodeStatus{Ready: true, BootID: "boot"}}}, nil
				},
			})
		},
		Last: func() (int64, error) { return record.CurrentEpoch(filepath.Join(dir, record.DirEpochs)) },
		Hello: func(context.Context) (agentengine.Hello, error) {
			return agentengine.Hello{Version: "dev", Instance: "one", Now: time.Now(), Node: api.Node{Meta: api.Meta{Name: nodeName}, Status: api.NodeStatus{Ready: true}}}, nil
		},
		Admit:  func(r *engine.Replica, token string) error { tokens.Store(r.Name, token); return nil },
		Forget: func(engine.Name) {}, Settle: func(agentengine.Settings) error { return nil }, Erase: func(string) error { return nil },
		Log: m.log,
	})
	ctx, cancel := context.WithCancel(context.Background())
	begun, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if err := m.hand.Run(ctx, func() { close(begun) }); err != nil {
			t.Error(err)
		}
	}()
	<-begun
	t.Cleanup(func() { cancel(); <-ended })
	return m
}

// clean ends everything that lives on the machine.
func (m *machine) clean() {
	folders, _ := filepath.Glob(filepath.Join(m.dir, "replicas", "*"))
	for _, dir := range folders {
		var p record.Process
		if ok, _ := record.Read(dir, record.FileLauncher, &p); ok {
			_ = p.Signal(syscall.SIGKILL)
		}
		if g, _ := cgroup.Load(dir); g != nil {
			_ = g.Kill(syscall.SIGKILL)
			_ = g.Remove()
		}
	}
	_ = os.RemoveAll(m.dir)
}

// server is an engine of a leader that the machine's agent attaches to.
type server struct {
	*agentengine.Engine
	close func()
}

func (m *machine) serve(epoch int64) *server {
	t := m.t
	t.Helper()
	node := api.Node{Meta: api.Meta{Name: nodeName}, Spec: api.NodeSpec{Zone: "z", Spec: joined.Spec{Agent: &joined.Agent{ID: "id"}}}}
	e := agentengine.New(agentengine.Config{
		Epoch: epoch, Mint: func(n engine.Name) string { return "token of " + string(n) }, Wait: time.Minute, Log: m.log,
		Joined: func(context.Context) ([]api.Node, error) { return []api.Node{node}, nil },
	})
	keys := func() [][]byte { return [][]byte{m.key} }
	desk := agency.NewDesk(agency.DeskConfig{
		Keys: keys, Version: "dev", Log: m.log, Known: func(context.Context, agency.Identity) error { return nil },
		Join: func(context.Context, agency.Wish) (agency.Joined, error) {
			return agency.Joined{Node: nodeName, ID: "id", Zone: "z"}, nil
		},
	})
	desk.Take(e)
	hub := link.NewHub(link.HubConfig{Tokens: link.NewTokens(m.key), Log: m.log, Clock: clock.Real})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = hub.Serve(ctx, tls.NewListener(l, endpoint.ServerTLS(keys)), func(r grpc.ServiceRegistrar) { desk.Register(r) })
	})
	target, err := endpoint.Target("host:1", m.key)
	if err != nil {
		t.Fatal(err)
	}
	_, pin, _ := strings.Cut(target, "#")
	own, err := os.MkdirTemp(m.dir, ".agent-")
	if err != nil {
		t.Fatal(err)
	}
	member, err := agency.Join(ctx, own, []string{l.Addr().String()}, agency.Token{Secret: "s", Pin: pin}, agency.Wish{Name: nodeName, Version: "dev"}, m.log)
	if err != nil {
		t.Fatal(err)
	}
	wg.Go(func() { _ = member.Run(ctx, m.hand.Attend) })
	ended := make(chan struct{})
	wg.Go(func() {
		defer close(ended)
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	s := &server{Engine: e, close: sync.OnceFunc(func() { cancel(); wg.Wait() })}
	t.Cleanup(s.close)
	return s
}

func (m *machine) Open(t *testing.T, epoch int64) (engine.Adapter, func()) {
	s := m.serve(epoch)
	select {
	case <-s.Ready():
	case <-time.After(time.Minute):
		t.Fatal("never ready")
	}
	return s.Engine, s.close
}

// OpenLate gives what the agent says to a leader whose time is over: a server does not end for the word of one machine.
func (m *machine) OpenLate(t *testing.T, epoch int64) error {
	s := m.serve(epoch)
	defer s.close()
	<-s.Ready()
	if refused := s.Refusal(nodeName); refused != nil {
		return refused
	}
	return nil
}

func (m *machine) Owner(t *testing.T, epoch int64) (enginetest.Orders, func()) {
	return m.Open(t, epoch)
}

func (m *machine) Shape(r *engine.Replica, held bool) {
	r.Command = []string{"/bin/sh", "-c", "while [ ! -e end ]; do sleep 0.01; done"}
	r.StopGrace = api.Duration(time.Second)
	r.Env = []api.EnvVar{{Name: "RAN", Value: m.ran(r.Name)}}
	if held {
		r.Env = append(r.Env, api.EnvVar{Name: "GATE", Value: "1"})
	}
}

func (m *machine) ran(name engine.Name) string { return filepath.Join(m.dir, "ran-"+string(name)) }

func (m *machine) Starts(name engine.Name) int {
	data, _ := os.ReadFile(m.ran(name))
	return strings.Count(string(data), "\n")
}

func (m *machine) Begin(t *testing.T, name engine.Name) { m.touch(t, name, "gate") }
func (m *machine) End(t *testing.T, name engine.Name)   { m.touch(t, name, "end") }

func (m *machine) touch(t *testing.T, name engine.Name, file string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, "replicas", string(name), file), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSuite: the engine port over the wire, with TLS and certificates, on a real host engine.
func TestSuite(t *testing.T) {
	enginetest.Run(t, func(t *testing.T) enginetest.Site { return newMachine(t) })
}
