package hosts

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/joined"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// older puts a program on a host that does what the servers' does and is another file, and has its agent be that.
func (l *lab) older(name string) (path string) {
	l.t.Helper()
	path = filepath.Join(l.w.Host(name).Disk(), "fermi")
	src, err := os.ReadFile(l.bin)
	if err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, append(src, "older"...), 0o755); err != nil {
		l.t.Fatal(err)
	}
	return path
}

// as does something with another program.
func (l *lab) as(bin string, do func()) {
	own := l.bin
	l.bin = bin
	defer func() { l.bin = own }()
	do()
}

// fermi is the command line, at the server.
func (l *lab) fermi(args ...string) (string, error) {
	token, err := os.ReadFile(filepath.Join(l.w.Host("a1").Disk(), "up", "admin.token"))
	if err != nil {
		l.t.Fatal(err)
	}
	cmd := exec.CommandContext(l.t.Context(), l.bin, append(args, "--lang", "en")...)
	cmd.Env = append(os.Environ(), "FERMI_SERVER=http://"+l.api, "FERMI_TOKEN="+strings.TrimSpace(string(token)))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func same(t *testing.T, a, b string) bool {
	t.Helper()
	one, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(b)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(one, other)
}

// TestUpgrade: agents of another program become the servers', while what they started runs on.
func TestUpgrade(t *testing.T) {
	l := newLab(t, 3)
	two, three := l.older("a2"), l.older("a3")
	l.as(two, func() { l.join("a2") })
	l.as(three, func() { l.join("a3") })
	l.only("a2")
	l.submit("long", 1, nil, "/bin/sh", "-c", `echo "pid $$"; while [ ! -e "$FERMI_OUTPUT/end" ]; do sleep 0.1; [ $((i=i+1)) -lt 300 ] || break; done; echo end`)
	l.phase("long", api.PhaseRunning)
	out, err := l.fermi("node", "upgrade", "--all")
	if err != nil || !strings.Contains(out, "node/a2 runs version") || !strings.Contains(out, "node/a3 runs version") {
		t.Fatal(out, err)
	}
	if !same(t, two, l.bin) || !same(t, three, l.bin) {
		t.Error("the program was not replaced")
	}
	for _, name := range []string{"a2", "a3"} {
		if err := l.agents[name].Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("the agent of %s is another process: %v", name, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(two), ".*next")); len(left) > 0 {
		t.Error(left)
	}
	if out, err := l.fermi("node", "upgrade", "--all"); err != nil || strings.Count(out, "already") != 2 {
		t.Error(out, err)
	}
	done := l.phase("long", api.PhaseCompleted)
	if logs := l.logs("long"); strings.Count(logs, "pid ") != 1 || done.Status.Attempt > 1 {
		t.Errorf("it was touched: attempt %d, %q", done.Status.Attempt, logs)
	}
	l.submit("after", 1, nil, "/bin/sh", "-c", `echo "on $FERMI_NODE"`)
	l.phase("after", api.PhaseCompleted)
	events, err := l.cl.Events(t.Context(), client.EventOptions{Kind: api.KindNode, Name: "a2", Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	said := 0
	for _, e := range events {
		if e.Reason == "AgentUpgraded" {
			said++
		}
	}
	if said != 1 {
		t.Errorf("%d events say that it was upgraded", said)
	}
	if out, err := l.fermi("node", "upgrade", "nobody"); err == nil {
		t.Error(out)
	}
}

// TestUpgradeTakenBack: a new program that reaches no server replaces nothing, and neither does one whose agent dies before it was tried; what runs goes on.
func TestUpgradeTakenBack(t *testing.T) {
	l := newLab(t, 2)
	bin := l.older("a2")
	kept := bin + ".kept"
	copyFile(t, bin, kept)
	l.as(bin, func() { l.join("a2") })
	l.only("a2")
	l.submit("long", 1, nil, "/bin/sh", "-c", `echo "pid $$"; sleep 1000`)
	l.phase("long", api.PhaseRunning)
	h := l.w.Host("a2")
	state := func(want joined.UpgradeState) func() bool {
		return func() bool {
			raw, _ := os.ReadFile(filepath.Join(h.Disk(), "agent", "upgrade.json"))
			return strings.Contains(string(raw), `"state":"`+string(want)+`"`)
		}
	}
	if _, err := client.UpgradeNode(t.Context(), l.cl, "a2"); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the new program is tried", state(joined.UpgradeTrying))
	l.w.Host("a1").Freeze() // the server; a machine that is cut off would lose its tasks
	harness.Eventually(t, "it is given up", state(joined.UpgradeFailed))
	l.w.Host("a1").Thaw()
	node := l.until("a2", "back", func(n *api.Node) bool {
		return n.Status.Ready && n.Status.Agent != nil && n.Status.Agent.Upgrade != nil && n.Status.Agent.Upgrade.Over()
	})
	if u := node.Status.Agent.Upgrade; u.State != joined.UpgradeFailed || !strings.Contains(u.Message.EN, "did not attach to a server within") {
		t.Errorf("%+v", u)
	}
	if !same(t, bin, kept) {
		t.Error("the program was replaced")
	}

	// Killed while the new one is tried: that dies too, and the next start is the old one's.
	if _, err := client.UpgradeNode(t.Context(), l.cl, "a2"); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the new program is tried", state(joined.UpgradeTrying))
	l.kill(l.agents["a2"])
	if !same(t, bin, kept) {
		t.Log("it came up before the agent was killed")
	}
	harness.Eventually(t, "the folder is free", func() bool {
		f, err := os.Open(filepath.Join(h.Disk(), "agent", "lock"))
		if err != nil {
			return false
		}
		defer f.Close()
		return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
	})
	l.as(bin, func() { l.agent("a2", "") })
	l.until("a2", "back", func(n *api.Node) bool {
		return n.Status.Ready && n.Status.Agent != nil && n.Status.Agent.Upgrade != nil && n.Status.Agent.Upgrade.Over()
	})
	if out, err := l.fermi("node", "upgrade", "a2"); err != nil || !same(t, bin, l.bin) {
		t.Error(out, err)
	}
	o, err := l.cl.Get(t.Context(), api.KindTrainingTask, "default", "long")
	if err != nil {
		t.Fatal(err)
	}
	if task := o.(*api.TrainingTask); task.Status.Phase != api.PhaseRunning || task.Status.Attempt > 1 || strings.Count(l.logs("long"), "pid ") != 1 {
		t.Errorf("it was touched: %+v", task.Status)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
