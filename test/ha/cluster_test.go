package ha

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/history/pgstore/pgtest"
	"github.com/fermi-cluster/fermi/test/harness"
)

// node is one fermi server in its namespace.
type node struct {
	*harness.Cluster
	host   *host
	client *client.Client
}

// world is everything.
type world struct {
	t       *testing.T
	rnd     *rand.Rand
	net     *network
	members []*member
	etcd    *clientv3.Client
	nodes   []*node
	token   string
	any     *client.Client // tries the servers in turn
	shared  string
	journal string
	// headless is how long etcd had no leader of its own.
	headless gaps
}

// zones of the demo in which the servers stand.
var zones = []string{"beijing-1", "beijing-2", "shanghai-1"}

func newWorld(t *testing.T, rnd *rand.Rand) *world {
	t.Helper()
	bin, err := harness.Binary()
	must(t, err)
	dir, err := os.MkdirTemp("/tmp", "ha")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &world{t: t, rnd: rnd, net: newNetwork(t, os.Getpid()), shared: filepath.Join(dir, "s"), journal: filepath.Join(journalDir(t), "journal")}
	ca := newAuthority(t, dir)
	ca.issue("fermi")
	w.members = newEtcd(t, w.net, ca, dir)
	w.etcd = dialEtcd(t, w.members, ca)
	var endpoints, addresses []string
	for _, m := range w.members {
		endpoints = append(endpoints, m.endpoint())
	}
	args := []string{
		"--demo", "--shared", w.shared, "--insecure", "--etcd-endpoints", strings.Join(endpoints, ","),
		"--etcd-ca", ca.file("ca.pem"), "--etcd-cert", ca.file("fermi.pem"), "--etcd-key", ca.file("fermi.key"),
	}
	if os.Getenv(pgtest.Variable) != "" {
		args = append(args, "--history-url", pgtest.New(t))
	} else {
		t.Fatal("no PostgreSQL is named: run `make e2e-ha`")
	}
	t.Cleanup(func() { harness.KillMarked(dir) })
	for i := range 3 {
		h := w.net.host(21 + i)
		n := &node{host: h, Cluster: &harness.Cluster{
			Bin: bin, Dir: filepath.Join(dir, fmt.Sprintf("n%d", i), "d"), Addr: h.ip + ":7070", Verb: "server",
			Args: append([]string{"--peer-listen", h.ip + ":7071", "--zone", zones[i]}, args...), Wrap: h.wrap(),
		}}
		must(t, os.MkdirAll(filepath.Dir(n.Dir), 0o700))
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("log of server %d:\n%s", i, n.LogTail())
			}
			_ = n.Signal(syscall.SIGCONT)
			n.Cleanup()
		})
		must(t, n.Spawn())
		w.nodes = append(w.nodes, n)
		addresses = append(addresses, "http://"+n.Addr)
	}
	for i := range w.nodes {
		w.waitReady(i)
	}
	raw, err := os.ReadFile(filepath.Join(w.nodes[0].Dir, "admin.token"))
	must(t, err)
	w.token = strings.TrimSpace(string(raw))
	for _, n := range w.nodes {
		n.client = w.connect("http://" + n.Addr)
	}
	w.any = w.connect(strings.Join(addresses, ","))
	must(t, harness.Share(t.Context(), w.any))
	return w
}

func (w *world) connect(servers string) *client.Client {
	c, err := client.New(client.Config{Server: servers, Token: w.token, Language: "en"})
	must(w.t, err)
	return c
}

var prober = &http.Client{Timeout: time.Second}

func ready(n *node) bool {
	resp, err := prober.Get("http://" + n.Addr + "/readyz")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func (w *world) waitReady(i int) {
	w.t.Helper()
	harness.Eventually(w.t, fmt.Sprintf("server %d is ready", i), func() bool { return ready(w.nodes[i]) })
}

// leader is the index of the server that leads by etcd's word; -1: nobody known.
func (w *world) leader() int {
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
	defer cancel()
	resp, err := w.etcd.Get(ctx, "/fermi/v1/_leader/", clientv3.WithFirstCreate()...)
	if err != nil || len(resp.Kvs) == 0 {
		return -1
	}
	for i, n := range w.nodes {
		if strings.HasSuffix(string(resp.Kvs[0].Value), "@"+n.host.ip+":7071") {
			return i
		}
	}
	return -1
}

func (w *world) waitLeader() int {
	w.t.Helper()
	harness.Eventually(w.t, "somebody leads", func() bool { return w.leader() >= 0 })
	return w.leader()
}

// etcdLeader is the index of the member that leads etcd.
func (w *world) etcdLeader() int {
	w.t.Helper()
	at := -1
	harness.Eventually(w.t, "an etcd member leads", func() bool {
		for i, m := range w.members {
			ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
			s, err := w.etcd.Status(ctx, m.endpoint())
			cancel()
			if err == nil && s.Leader == s.Header.MemberId {
				at = i
				return true
			}
		}
		return false
	})
	return at
}

// etcdWhole says that every member follows the same leader and has applied what there is.
func (w *world) etcdWhole() bool {
	leader, applied := uint64(0), uint64(0)
	for i := range 2 { // the second time against what the first found
		for _, m := range w.members {
			ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
			s, err := w.etcd.Status(ctx, m.endpoint())
			cancel()
			if err != nil || s.Leader == 0 || leader != 0 && s.Leader != leader || i == 1 && s.RaftAppliedIndex < applied {
				return false
			}
			leader = s.Leader
			if i == 0 {
				applied = max(applied, s.RaftAppliedIndex)
			}
		}
	}
	return true
}

// watchEtcd measures how long etcd itself has no leader, and prints who leads when that changes.
func (w *world) watchEtcd(ctx context.Context, wg *sync.WaitGroup) {
	var mu sync.Mutex
	last := ""
	for _, m := range w.members {
		wg.Go(func() {
			for ; ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
				short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
				s, err := w.etcd.Status(short, m.endpoint())
				cancel()
				if err != nil || s.Leader != s.Header.MemberId {
					continue
				}
				w.headless.good()
				mu.Lock()
				if now := fmt.Sprintf("%s in term %d", m.Name, s.RaftTerm); now != last {
					last = now
					w.t.Logf("%s etcd is led by %s", time.Now().Format("15:04:05.000"), now)
				}
				mu.Unlock()
			}
		})
	}
}

// journalDir is a folder that the tasks, which are somebody else, can enter and write to.
func journalDir(t *testing.T) string {
	t.Helper()
	return harness.Folder(t)
}
