package hosts

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// running submits a task that runs until the file "end" is in its outputs, on whichever node is open.
func (l *lab) running(name string) {
	l.t.Helper()
	l.submit(name, 1, nil, "/bin/sh", "-c", `echo "pid $$"; while [ ! -e "$FERMI_OUTPUT/end" ]; do sleep 0.1; done; echo end`)
	l.phase(name, api.PhaseRunning)
}

// finish has it end, and looks whether it ran through.
func (l *lab) finish(name, host string) {
	l.t.Helper()
	outputs, err := filepath.Glob(filepath.Join(l.w.Host(host).Disk(), "agent", "engine", "replicas", l.task(name).Meta.ID+"-*", "output"))
	if err != nil || len(outputs) != 1 {
		l.t.Fatalf("outputs of %s on %s: %v %v", name, host, outputs, err)
	}
	if err := os.WriteFile(filepath.Join(outputs[0], "end"), nil, 0o644); err != nil {
		l.t.Fatal(err)
	}
	done := l.phase(name, api.PhaseCompleted)
	if logs := l.logs(name); strings.Count(logs, "pid ") != 1 || !strings.Contains(logs, "end") || done.Status.Attempt > 1 {
		l.t.Errorf("%s was touched: attempt %d, %q", name, done.Status.Attempt, logs)
	}
}

func isReady(n *api.Node) bool { return n.Status.Ready && n.Status.Reason == "" }

// TestSkew: the clock of a machine that joined is set a day ahead, and a day behind. What runs there runs on and is charged for what it took; the node
// says by how much its clock is off and takes no new work, also after a new leader; when the clock is right again it does.
func TestSkew(t *testing.T) {
	l := newLab(t, 2)
	l.join("a2")
	l.only("a2")
	for i, skew := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		name := "task-" + strconv.Itoa(i)
		began := time.Now()
		l.running(name)
		set := func(off time.Duration) {
			t.Helper()
			for _, pid := range l.w.Host("a2").Processes() {
				raw, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
				if !strings.HasPrefix(string(raw), l.bin+"\x00") {
					continue
				}
				c, err := harness.WallClockOf(pid)
				if err == nil {
					err = c.Set(off)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		set(skew)
		off := func(n *api.Node) bool {
			m := n.Status.Message
			return !n.Status.Ready && n.Status.Reason == "ClockSkew" && strings.Contains(m.EN, "is off by") && strings.Contains(m.EN, "chrony") && strings.Contains(m.ZH, "时钟偏差")
		}
		l.until("a2", "off", off)
		l.kill(l.server)
		l.serve()
		l.until("a2", "off for the next leader", func(n *api.Node) bool { return off(n) && n.Status.Agent != nil })
		l.submit("waits-"+name, 1, nil, "/bin/sh", "-c", "echo well")
		if got := l.task("waits-" + name).Status.Phase; got != api.PhasePending {
			t.Errorf("new work there is %s", got)
		}
		set(0)
		l.until("a2", "right again", isReady)
		l.phase("waits-"+name, api.PhaseCompleted)
		l.finish(name, "a2")
		took, st := time.Since(began), l.task(name).Status
		if ran := st.FinishedAt.Sub(*st.StartedAt); ran < 0 || ran > took {
			t.Errorf("%s is said to have run for %s, and took less than %s", name, ran, took)
		}
	}
}

// TestClone: a disk is copied whole, with the machine's id and its membership. The copy is turned away, tells why and knocks seldom; the node says so with
// the copy's address and works on. With its folder deleted it is refused for the machine's id, and with one of its own it joins.
func TestClone(t *testing.T) {
	l := newLab(t, 3)
	l.join("a2")
	l.only("a2")
	l.running("long")
	one, copied := l.w.Host("a2"), l.w.Host("a3")
	copied.SetMachineID(one.MachineID())
	to := filepath.Join(copied.Disk(), "agent")
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"agent.key", "agent.json"} {
		copyFile(t, filepath.Join(one.Disk(), "agent", file), filepath.Join(to, file))
	}
	l.agents["a3"] = l.begin(copied, "agent.log", nil, "agent", "--data", to)
	node := l.until("a2", "told of its copy", func(n *api.Node) bool { return strings.Contains(n.Status.Message.EN, copied.Addr().String()) })
	if m := node.Status.Message; !node.Status.Ready || !strings.Contains(m.EN, "was a disk cloned?") || !strings.Contains(m.ZH, "克隆") || node.Status.Agent.Address != one.Addr().String() {
		t.Errorf("%+v", node.Status)
	}
	said := func() string {
		raw, _ := os.ReadFile(filepath.Join(copied.Disk(), "agent.log"))
		return string(raw)
	}
	harness.Eventually(t, "the copy says why", func() bool { return strings.Contains(said(), "cloned?") })
	l.submit("beside", 1, nil, "/bin/sh", "-c", `echo "on $FERMI_NODE"`)
	l.phase("beside", api.PhaseCompleted)
	l.finish("long", "a2")

	l.kill(l.agents["a3"])
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	l.until("a2", "without a copy", isReady)
	token, err := client.AddNode(t.Context(), l.cl, "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := copied.Command(l.bin, "agent", "--data", to, "--name", "a3", "--join", l.link, "--token", token.Token).CombinedOutput()
	if !strings.Contains(string(out), "same machine id") || !strings.Contains(string(out), "systemd-machine-id-setup") {
		t.Errorf("%s", out)
	}
	copied.SetMachineID(strings.Repeat("3", 32))
	l.agent("a3", token.Token) // nothing has used it up
	l.until("a3", "ready", isReady)
}

// TestVersions: an agent of the minor version before works on; one that is newer than the servers or too old can't join, and where it takes the place of
// another the node says so and what to do, and what runs there runs on until the right one is back.
func TestVersions(t *testing.T) {
	const version = "v1.4.0-made-for-a-test"
	dir := t.TempDir()
	program := func(minor string) string { return filepath.Join(dir, minor) }
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w -X main.version="+version, "-o", program("v1.4"), "./cmd/fermi")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, minor := range []string{"v1.2", "v1.3", "v1.5"} { // programs that differ in their version alone
		raw, err := os.ReadFile(program("v1.4"))
		if err == nil {
			err = os.WriteFile(program(minor), bytes.ReplaceAll(raw, []byte(version), []byte(strings.Replace(version, "v1.4", minor, 1))), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("FERMI_BIN", program("v1.4"))
	l := newLab(t, 2)
	token, err := client.AddNode(t.Context(), l.cl, "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	h := l.w.Host("a2")
	for minor, want := range map[string]string{"v1.5": "Update the servers first", "v1.2": "takes agents of the same or the previous minor version"} {
		out, _ := h.Command(program(minor), "agent", "--data", filepath.Join(h.Disk(), "agent"), "--name", "a2", "--join", l.link, "--token", token.Token).CombinedOutput()
		if !strings.Contains(string(out), want) {
			t.Errorf("%s: %s", minor, out)
		}
	}
	l.as(program("v1.3"), func() { l.agent("a2", token.Token) }) // nothing has used it up
	l.until("a2", "ready", func(n *api.Node) bool { return isReady(n) && strings.HasPrefix(n.Status.Agent.Version, "v1.3") })
	l.only("a2")
	l.running("long")
	for minor, reason := range map[string]string{"v1.5": "AgentTooNew", "v1.2": "AgentTooOld"} {
		l.kill(l.agents["a2"])
		l.as(program(minor), func() { l.agent("a2", "") })
		l.until("a2", reason, func(n *api.Node) bool {
			return !n.Status.Ready && n.Status.Reason == reason && strings.Contains(n.Status.Message.EN, minor) && strings.Contains(n.Status.Message.ZH, minor)
		})
	}
	l.kill(l.agents["a2"])
	l.as(program("v1.4"), func() { l.agent("a2", "") })
	l.until("a2", "ready again", func(n *api.Node) bool { return isReady(n) && n.Status.Agent.Version == version })
	l.finish("long", "a2")
}
