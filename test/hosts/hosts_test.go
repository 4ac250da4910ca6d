package hosts

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/app/kinds"
	"github.com/fermi-cluster/fermi/test/harness"
	"github.com/fermi-cluster/fermi/test/hosts/world"
)

func TestMain(m *testing.M) {
	kinds.Ship()
	kinds.ShipServices()
	world.Main(m)
}

// lab is a server on the first host of a world, and agents on others.
type lab struct {
	t      *testing.T
	w      *world.World
	bin    string
	api    string // host:port
	link   string
	server *world.Cmd
	cl     *client.Client
	agents map[string]*world.Cmd
	bucket *bucket // nil: bytes lie in the server's folder
}

const (
	apiPort  = 7070
	linkPort = 7072
)

// newLab starts the server on a1 of one zone.
func newLab(t *testing.T, hosts int) *lab {
	t.Helper()
	return newLabOf(t, world.Config{Zones: []world.Zone{{Name: "a", Hosts: hosts}}})
}

// newLabOf starts the server on a1, with its bytes in a bucket on a host, where one is named.
func newLabOf(t *testing.T, cfg world.Config, bucketOn ...string) *lab {
	t.Helper()
	bin, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	w := world.New(t, cfg)
	l := &lab{t: t, w: w, bin: bin, api: w.Host("a1").At(apiPort), link: w.Host("a1").At(linkPort), agents: map[string]*world.Cmd{}}
	for _, name := range bucketOn {
		l.bucket = newBucket(t, w.Host(name))
	}
	l.serve()
	l.report()
	return l
}

// report has a failed test show what servers and agents said.
func (l *lab) report() {
	l.t.Cleanup(func() {
		if !l.t.Failed() {
			return
		}
		for _, h := range l.w.Hosts("") {
			for _, name := range []string{"server.log", "agent.log"} {
				if raw, err := os.ReadFile(filepath.Join(h.Disk(), name)); err == nil {
					l.t.Logf("%s of %s:\n%s", name, h.Name(), raw[max(0, len(raw)-6000):])
				}
			}
		}
	})
}

// begin runs fermi on a host, with a log on its disk.
func (l *lab) begin(h *world.Host, log string, env []string, args ...string) *world.Cmd {
	l.t.Helper()
	cmd := h.Command(l.bin, args...)
	out, err := os.OpenFile(filepath.Join(h.Disk(), log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		l.t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr, cmd.Env = out, out, append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }()
	return cmd
}

// serve starts the server, the first time or again.
func (l *lab) serve() {
	l.t.Helper()
	h := l.w.Host("a1")
	data := filepath.Join(h.Disk(), "up")
	args := []string{"up", "--data", data, "--listen", l.api, "--insecure", "--link-listen", l.link}
	if l.bucket != nil {
		args = append(args, l.bucket.args()...)
	}
	l.server = l.begin(h, "server.log", nil, args...)
	harness.Eventually(l.t, "the server is ready", func() bool {
		raw, err := os.ReadFile(filepath.Join(data, "admin.token"))
		if err != nil {
			return false
		}
		if l.cl, err = client.New(client.Config{Server: "http://" + l.api, Token: strings.TrimSpace(string(raw))}); err != nil {
			return false
		}
		ctx, cancel := context.WithTimeout(l.t.Context(), 5*time.Second)
		defer cancel()
		_, err = l.cl.Get(ctx, api.KindZone, "", "local")
		return err == nil
	})
}

// kill ends a command without a word.
func (l *lab) kill(c *world.Cmd) {
	l.t.Helper()
	if err := c.Process.Signal(syscall.SIGKILL); err != nil {
		l.t.Fatal(err)
	}
}

// agent starts the agent of a host; with a token it joins.
func (l *lab) agent(name, token string) {
	l.t.Helper()
	h := l.w.Host(name)
	args := []string{"agent", "--data", filepath.Join(h.Disk(), "agent"), "--name", name}
	var env []string
	if token != "" {
		args, env = append(args, "--join", l.link), []string{"FERMI_JOIN_TOKEN=" + token}
	}
	l.agents[name] = l.begin(h, "agent.log", env, args...)
}

// join makes a token and has a host join.
func (l *lab) join(name string) {
	l.t.Helper()
	token, err := client.AddNode(l.t.Context(), l.cl, "", time.Hour)
	if err != nil {
		l.t.Fatal(err)
	}
	l.agent(name, token.Token)
	l.until(name, "ready", func(n *api.Node) bool { return n.Status.Ready })
}

// until waits for a node to be so.
func (l *lab) until(name, what string, ok func(*api.Node) bool) *api.Node {
	l.t.Helper()
	var node *api.Node
	harness.Eventually(l.t, "node "+name+" is "+what, func() bool {
		o, err := l.cl.Get(l.t.Context(), api.KindNode, "", name)
		if err != nil {
			return false
		}
		node = o.(*api.Node)
		return ok(node)
	})
	return node
}

// only has new work go to these nodes.
func (l *lab) only(names ...string) {
	l.t.Helper()
	list, err := l.cl.List(l.t.Context(), api.KindNode, client.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	for _, o := range list.Items {
		verb := "cordon"
		for _, n := range names {
			if n == o.GetMeta().Name {
				verb = "uncordon"
			}
		}
		if _, err := l.cl.NodeVerb(l.t.Context(), verb, o.GetMeta().Name, -1); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *lab) submit(name string, replicas int, change func(*api.TrainingTask), command ...string) {
	l.t.Helper()
	task := &api.TrainingTask{Meta: api.Meta{Name: name, Project: "default"}, Spec: api.TrainingTaskSpec{
		Roles: []api.Role{{Name: "worker", Replicas: replicas, Command: command, Resources: api.Resources{CPU: 500, Memory: 512 << 20}}},
	}}
	if change != nil {
		change(task)
	}
	if _, err := l.cl.Create(l.t.Context(), task, false); err != nil {
		l.t.Fatal(err)
	}
}

// phase waits until a task got there.
func (l *lab) phase(name string, want api.Phase) *api.TrainingTask {
	l.t.Helper()
	var task *api.TrainingTask
	harness.Eventually(l.t, fmt.Sprintf("%s is %s", name, want), func() bool {
		o, err := l.cl.Get(l.t.Context(), api.KindTrainingTask, "default", name)
		if err != nil {
			return false
		}
		task = o.(*api.TrainingTask)
		if task.Status.Phase.Finished() && task.Status.Phase != want {
			l.t.Fatalf("%s is %s: %s %+v\n%s", name, task.Status.Phase, task.Status.Reason, task.Status.Message, l.logs(name))
		}
		return task.Status.Phase == want
	})
	return task
}

func (l *lab) logs(name string) string {
	var out bytes.Buffer
	_ = l.cl.Logs(l.t.Context(), "default", name, client.LogOptions{}, func(line client.LogLine) error {
		fmt.Fprintln(&out, line.Text)
		return nil
	})
	return out.String()
}

// TestJoin: a machine joins, a task runs there, its log and its outputs are read at the server, and it survives kills of the agent and of the server.
func TestJoin(t *testing.T) {
	l := newLab(t, 2)
	l.join("a2")
	node := l.until("a2", "reported", func(n *api.Node) bool { return n.Status.Agent != nil && n.Spec.CPU > 0 })
	if node.Status.Agent.Address != l.w.Host("a2").Addr().String() || node.Status.BootID != l.w.Host("a2").BootID() {
		t.Errorf("%+v", node.Status)
	}
	l.only("a2")
	l.submit("first", 1, nil, "/bin/sh", "-c", `echo "on $FERMI_NODE"; echo result > "$FERMI_OUTPUT/result.txt"`)
	l.phase("first", api.PhaseCompleted)
	if logs := l.logs("first"); !strings.Contains(logs, "on a2") {
		t.Errorf("log: %q", logs)
	}
	outs, err := l.cl.Outputs(t.Context(), "default", "first")
	if err != nil || len(outs) != 1 {
		t.Errorf("outputs: %+v %v", outs, err)
	}

	// What runs is touched by no kill.
	l.submit("long", 1, nil, "/bin/sh", "-c", `echo "pid $$"; sleep 8; echo end`)
	l.phase("long", api.PhaseRunning)
	l.kill(l.agents["a2"])
	l.kill(l.server)
	l.agent("a2", "")
	l.serve()
	l.until("a2", "ready again", func(n *api.Node) bool { return n.Status.Ready })
	done := l.phase("long", api.PhaseCompleted)
	if logs := l.logs("long"); strings.Count(logs, "pid ") != 1 || !strings.Contains(logs, "end") || done.Status.Attempt > 1 {
		t.Errorf("it was touched: attempt %d, %q", done.Status.Attempt, logs)
	}

	// A machine that stands still takes no new work until it is back.
	l.w.Host("a2").Freeze()
	l.until("a2", "silent", func(n *api.Node) bool { return !n.Status.Ready && n.Status.Reason == "AgentSilent" })
	l.w.Host("a2").Thaw()
	l.until("a2", "back", func(n *api.Node) bool { return n.Status.Ready && n.Status.Reason == "" })
}

// TestRefused: tokens that are wrong, used or expired, names and machines that are there already, and a removed machine.
func TestRefused(t *testing.T) {
	l := newLab(t, 3)
	token, err := client.AddNode(t.Context(), l.cl, "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	try := func(host, token string, more ...string) string {
		h := l.w.Host(host)
		cmd := h.Command(l.bin, append([]string{"agent", "--data", filepath.Join(h.Disk(), "try"), "--join", l.link, "--token", token}, more...)...)
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	secret, pin, _ := strings.Cut(token.Token, ".")
	if out := try("a2", secret[:len(secret)-2]+"xx."+pin); !strings.Contains(out, "not valid") {
		t.Error("a wrong token:", out)
	}
	short, err := client.AddNode(t.Context(), l.cl, "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if out := try("a2", "nonsense"); !strings.Contains(out, "no join token") {
		t.Error("no token:", out)
	}
	l.agent("a2", token.Token)
	l.until("a2", "ready", func(n *api.Node) bool { return n.Status.Ready })
	if out := try("a3", token.Token, "--name", "a3"); !strings.Contains(out, "used already") {
		t.Error("a used token:", out)
	}
	again, err := client.AddNode(t.Context(), l.cl, "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if out := try("a3", again.Token, "--name", "a2"); !strings.Contains(out, "There is a node a2 already") {
		t.Error("a name twice:", out)
	}
	l.w.Host("a3").SetMachineID(l.w.Host("a2").MachineID())
	if out := try("a3", again.Token, "--name", "a3"); !strings.Contains(out, "same machine id") {
		t.Error("a cloned disk:", out)
	}
	harness.Eventually(t, "the short token expires", func() bool { return time.Now().After(short.ExpiresAt) })
	if out := try("a3", short.Token, "--name", "a3"); !strings.Contains(out, "expired at") || !strings.Contains(out, "fermi node add") {
		t.Error("an expired token:", out)
	}
	if _, err := l.cl.NodeVerb(t.Context(), "remove", "a2", -1); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the agent is told", func() bool {
		raw, _ := os.ReadFile(filepath.Join(l.w.Host("a2").Disk(), "agent.log"))
		return strings.Contains(string(raw), "NodeRemoved")
	})
}

// TestOverHosts: DDP with gloo over two machines.
func TestOverHosts(t *testing.T) {
	l := newLab(t, 3)
	l.join("a2")
	l.join("a3")
	l.only("a2", "a3")
	script, err := os.ReadFile("testdata/ddp.py")
	if err != nil {
		t.Fatal(err)
	}
	l.submit("ddp", 2, func(task *api.TrainingTask) {
		task.Spec.Framework = "pytorch-ddp"
		task.Spec.Topology = &api.Topology{Mode: api.TopologySpread}
	}, "python3", "-c", string(script))
	l.phase("ddp", api.PhaseCompleted)
	if logs := l.logs("ddp"); !strings.Contains(logs, "sum 3.0 on a2") || !strings.Contains(logs, "sum 3.0 on a3") {
		t.Errorf("%s", logs)
	}
}
