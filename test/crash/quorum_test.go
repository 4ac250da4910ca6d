package crash

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/test/harness"
)

// member is one of three real etcd servers, each in a process of its own. Clients come by unix sockets: an open port on
// loopback is refused.
type member struct {
	Name, Dir, Client, Peer, Cluster string

	cmd *exec.Cmd
}

// serveMember is the child's side: it runs until it is killed.
func serveMember(text string) error {
	var m member
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return err
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.InitialCluster, cfg.ZapLoggerBuilder = m.Name, m.Dir, m.Cluster, embed.NewZapLoggerBuilder(zap.NewNop())
	cl, peer := url.URL{Scheme: "unix", Path: m.Client}, url.URL{Scheme: "http", Host: m.Peer}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{cl}, []url.URL{cl}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	fmt.Println("started")
	return <-e.Err()
}

func (m *member) start(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	m.cmd = exec.Command(os.Args[0])
	m.cmd.Env = append(os.Environ(), "FERMI_TEST_MEMBER="+string(text))
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != "started" {
		t.Fatalf("etcd member %s: %q %v", m.Name, line, err)
	}
}

func (m *member) kill() {
	if m.cmd != nil {
		_ = m.cmd.Process.Kill()
		_ = m.cmd.Wait()
		m.cmd = nil
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func threeMembers(t *testing.T) []*member {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "fq")
	if err != nil {
		t.Fatal(err)
	}
	var ms []*member
	var cluster []string
	for i := range 3 {
		m := &member{Name: fmt.Sprintf("m%d", i), Dir: filepath.Join(dir, fmt.Sprint(i)), Client: filepath.Join(dir, fmt.Sprintf("%d.sock", i)), Peer: freeAddr(t)}
		ms, cluster = append(ms, m), append(cluster, m.Name+"=http://"+m.Peer)
	}
	t.Cleanup(func() {
		for _, m := range ms {
			m.kill()
		}
		os.RemoveAll(dir)
	})
	for _, m := range ms {
		m.Cluster = strings.Join(cluster, ",")
		m.start(t)
	}
	return ms
}

// TestCrashLostQuorum kills two of three etcd members: writes and, because they could be old, reads are
// refused with a clear sentence, the running task is not touched, and when a member is back everything acknowledged is there.
func TestCrashLostQuorum(t *testing.T) {
	ms := threeMembers(t)
	c, cl := launch(t, "server", "--demo", "--etcd-endpoints", "unix://"+ms[0].Client+",unix://"+ms[1].Client+",unix://"+ms[2].Client)
	l := newLoad(t, seeded(t), 0)
	submit := func(name string, seconds float64) error {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := cl.Submit(ctx, l.j.Task(name, seconds, 0), false)
		if err == nil {
			l.acked[name] = true
		}
		return err
	}
	if err := submit("before", 5); err != nil {
		t.Fatal(err)
	}
	untilPhase(t, cl, "before", api.PhaseRunning)
	ms[1].kill()
	ms[2].kill()
	err := submit("during", 0.1)
	if err == nil || !fault.CodeOf(err).Retry() {
		t.Errorf("a submit without a quorum: %v", err)
	}
	t.Log("without a quorum a submit is answered:", err)
	_, err = cl.Get(t.Context(), api.KindTrainingTask, "default", "before") // long after the store went away
	if fault.ReasonOf(err) != "CutOff" {
		t.Errorf("a read without a quorum: %v", err)
	}
	t.Log("without a quorum a read is answered:", err)
	ms[1].start(t)
	deadline := time.Now().Add(harness.Patience)
	for i := 0; submit(fmt.Sprintf("after-%d", i), 0.1) != nil; i++ {
		if time.Now().After(deadline) {
			t.Fatal("no task is taken after the quorum came back")
		}
	}
	found := l.settle(t, cl, c.Dir)
	l.check(t, cl, found, nil)
}

func untilPhase(t *testing.T, c *client.Client, name string, phase api.Phase) {
	t.Helper()
	deadline := time.Now().Add(harness.Patience)
	for {
		task, err := client.Get[*api.TrainingTask](t.Context(), c, "default", name)
		if err == nil && task.Status.Phase == phase {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is never %s: %v %v", name, phase, task, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
