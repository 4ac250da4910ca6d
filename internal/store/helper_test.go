package store

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
)

// patience is how long a test waits for something that normally takes milliseconds.
const patience = time.Minute

// folder is a short one: sockets are made in it.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "f")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "e")
}

// etcd runs for the length of a test.
func etcd(t testing.TB, dir string) *embedded.Server {
	t.Helper()
	srv, err := embedded.Start(t.Context(), embedded.Config{Dir: dir, UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	return srv
}

// dial is a client over the socket, as another process has it.
func dial(t testing.TB, endpoint string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second,
			Backoff: grpcbackoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.2, MaxDelay: 100 * time.Millisecond}})},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// running is a store whose cache is fed for the length of a test.
func running(t testing.TB, cfg Config) *Store {
	t.Helper()
	s := New(cfg)
	s.freshFor = patience // tests mean the cache, however busy the machine is
	start(t, s)
	return s
}

// start starts a store and gives its stop, which waits.
func start(t testing.TB, s *Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	select {
	case <-s.Ready():
	case <-time.After(patience):
		t.Fatal("the cache was not filled")
	}
	return stop
}

// fresh is a store on a new etcd.
func fresh(t testing.TB) *Store {
	t.Helper()
	return running(t, Config{Client: etcd(t, folder(t)).Client()})
}

func task(name string) *api.TrainingTask {
	return &api.TrainingTask{Meta: api.Meta{ID: id.Default.New("task"), Name: name, Project: "default", DisplayName: name}}
}

func keyOf(name string) api.Key {
	return api.Key{Kind: api.KindTrainingTask, Project: "default", Name: name}
}

func mustCommit(t testing.TB, s *Store, ops ...Op) int64 {
	t.Helper()
	rev, err := s.Commit(t.Context(), Txn{Ops: ops})
	if err != nil {
		t.Fatalf("Commit: %v", err)
	}
	return rev
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// bigTask is about 2 kB of JSON, as a real one.
func bigTask(i int) *api.TrainingTask {
	t := task(fmt.Sprintf("task-%06d", i))
	t.Meta.DisplayName = "GPT大模型分布式训练"
	t.Meta.Owner = "researcher"
	t.Meta.Labels = map[string]string{"team": "nlp", "stage": "pretrain"}
	t.Meta.CreatedAt, t.Meta.UpdatedAt = time.Unix(1.7e9, 0).UTC(), time.Unix(1.7e9, 0).UTC()
	t.Spec.Description = "A description that says what this is for and who asked for it."
	t.Spec.Framework, t.Spec.Queue = api.FrameworkPlain, "default"
	t.Spec.HyperParameters = map[string]any{"lr": 0.001, "batch": 64.0, "epochs": 10.0, "model": "gpt"}
	for _, role := range []string{"worker", "ps"} {
		r := api.Role{
			Name: role, Replicas: 8, Command: []string{"python", "train.py"},
			Args:      []string{"--config", "configs/base.yaml", "--resume", "--log-every", "10"},
			Resources: api.Resources{CPU: 16000, Memory: 64 << 30, Accelerators: api.Accelerators{Type: "A100", Count: 8}},
		}
		for e := range 5 {
			r.Env = append(r.Env, api.EnvVar{Name: fmt.Sprintf("SETTING_%d", e), Value: "a value of some length"})
		}
		t.Spec.Roles = append(t.Spec.Roles, r)
	}
	t.Status.Phase, t.Status.Reason = api.PhasePending, "WaitingForDevices"
	t.Status.Message.EN, t.Status.Message.ZH = "Waiting for 16 A100 devices in zone beijing-1; 8 are free.", "正在等待 16 张 A100，当前空闲 8 张。"
	return t
}

// backUp copies a running store into a file.
func backUp(t testing.TB, srv *embedded.Server) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "backup"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := embedded.Backup(t.Context(), srv.Client(), f); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

func removeAll(t testing.TB, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}

// wire is a socket between a client and etcd that can be cut: a network.
type wire struct {
	t      testing.TB
	path   string
	target string
	mu     sync.Mutex
	l      net.Listener
	conns  []net.Conn
	wg     sync.WaitGroup
}

func newWire(t testing.TB, srv *embedded.Server) *wire {
	t.Helper()
	dir := folder(t)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, path: filepath.Join(dir, "w"), target: strings.TrimPrefix(srv.Endpoint(), "unix://")}
	w.mend()
	t.Cleanup(w.cut)
	return w
}

func (w *wire) endpoint() string { return "unix://" + w.path }

func (w *wire) mend() {
	w.t.Helper()
	l, err := net.Listen("unix", w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.l = l
	w.mu.Unlock()
	w.wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("unix", w.target)
			if err != nil {
				in.Close()
				continue
			}
			w.mu.Lock()
			w.conns = append(w.conns, in, out)
			w.mu.Unlock()
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				w.wg.Go(func() { io.Copy(pair[0], pair[1]); pair[0].Close(); pair[1].Close() })
			}
		}
	})
}

// cut ends all connections and waits until nothing runs over the wire.
func (w *wire) cut() {
	w.mu.Lock()
	w.l.Close()
	w.mu.Unlock()
	for done := false; !done; {
		w.mu.Lock()
		for _, c := range w.conns {
			c.Close()
		}
		w.conns = nil
		w.mu.Unlock()
		finished := make(chan struct{})
		go func() { w.wg.Wait(); close(finished) }()
		select {
		case <-finished:
			done = true
		case <-time.After(10 * time.Millisecond): // one was accepted in between
		}
	}
}
