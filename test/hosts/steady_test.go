package hosts

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/devenv"
	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// member is somebody of project lab who is no more than that.
type member struct {
	l      *lab
	secret string
	cl     *client.Client
}

func (l *lab) member(name string) *member {
	l.t.Helper()
	ctx := l.t.Context()
	if _, err := client.Create(ctx, l.cl, &api.User{Meta: api.Meta{Name: name}, Spec: api.UserSpec{Role: api.RoleMember}}); err != nil {
		l.t.Fatal(err)
	}
	if _, err := client.Create(ctx, l.cl, &api.Project{Meta: api.Meta{Name: "lab"}, Spec: api.ProjectSpec{Members: []string{name}, Queue: "default"}}); err != nil {
		l.t.Fatal(err)
	}
	made, err := l.cl.CreateToken(ctx, &api.Token{Meta: api.Meta{Name: name}, Spec: api.TokenSpec{User: name}}, false)
	if err != nil {
		l.t.Fatal(err)
	}
	m := &member{l: l, secret: made.Secret}
	if m.cl, err = client.New(client.Config{Server: "http://" + l.api, Token: made.Secret}); err != nil {
		l.t.Fatal(err)
	}
	return m
}

// try runs the program as the member.
func (m *member) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(m.l.t.Context(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, m.l.bin, append([]string{"--project", "lab"}, args...)...)
	cmd.Env = append(os.Environ(), "FERMI_SERVER=http://"+m.l.api, "FERMI_TOKEN="+m.secret, "FERMI_LANG=en", "HOME="+m.l.t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m *member) must(args ...string) string {
	m.l.t.Helper()
	out, err := m.try(args...)
	if err != nil {
		for _, kind := range []string{"service-replicas", "service-endpoints", "nodes"} {
			raw, err := m.l.cl.Raw(m.l.t.Context(), "/"+kind, url.Values{"project": {"*"}})
			m.l.t.Logf("%s: %s %v", kind, raw, err)
		}
		m.l.t.Fatalf("fermi %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// shell runs a command in an environment; "" while it can't be entered.
func (m *member) shell(env, command string) string {
	out, err := m.try("env", "shell", env, "--", "/bin/sh", "-c", command)
	if err != nil {
		return ""
	}
	return out
}

func (m *member) env(name string) *devenv.DevEnvironment {
	m.l.t.Helper()
	o, err := m.cl.Get(m.l.t.Context(), devenv.Kind, "lab", name)
	if err != nil {
		m.l.t.Fatal(err)
	}
	return o.(*devenv.DevEnvironment)
}

// TestEnvironment: an environment on a machine that joined, with a home on that machine's disk, which it keeps through stops, a dead agent, a dead
// server and a start while its machine is away, until it is deleted.
func TestEnvironment(t *testing.T) {
	l := newLab(t, 3)
	l.join("a2")
	l.join("a3")
	m := l.member("ann")
	l.only("a2")
	m.must("env", "create", "desk", "--cpu", "500m", "--memory", "256Mi")
	if out := m.shell("desk", `echo "at $FERMI_NODE as $(id -u)"; echo mine > $HOME/note`); !strings.Contains(out, "at a2 as ") || strings.Contains(out, "as 0") {
		t.Fatalf("a shell: %q", out)
	}
	desk := m.env("desk")
	if desk.Status.Home != "a2" {
		t.Errorf("its home is said to be on %q", desk.Status.Home)
	}
	home := filepath.Join(l.w.Host("a2").Disk(), "agent", "engine", "homes", desk.Meta.ID)
	if raw, err := os.ReadFile(filepath.Join(home, "note")); err != nil || string(raw) != "mine\n" {
		t.Errorf("its home: %q %v", raw, err)
	}
	m.answers("desk")

	// The agent and the server die; nothing of it does.
	l.kill(l.agents["a2"])
	l.kill(l.server)
	l.agent("a2", "")
	l.serve()
	l.until("a2", "ready again", func(n *api.Node) bool { return n.Status.Ready })
	harness.Eventually(t, "it is entered again", func() bool { return strings.Contains(m.shell("desk", "cat $HOME/note; ps -o args= | head"), "mine") })

	// It starts where its home is, and nowhere else.
	m.must("env", "stop", "desk")
	l.only("a3")
	go func() { _, _ = m.try("env", "start", "desk") }() // it waits
	harness.Eventually(t, "it waits and says for what", func() bool {
		why, err := m.cl.Raw(t.Context(), "/dev-environments/desk/why", url.Values{"project": {"lab"}})
		return err == nil && strings.Contains(string(why), "OneNode") && strings.Contains(string(why), "a2")
	})
	l.only("a2", "a3")
	harness.Eventually(t, "it runs where its home is", func() bool { return strings.Contains(m.shell("desk", "echo $FERMI_NODE; cat $HOME/note"), "a2\nmine") })

	// Deleted while its machine was away, its home goes when the machine is back.
	m.must("env", "stop", "desk")
	harness.Eventually(t, "it has ended", func() bool { return m.env("desk").Status.Phase == api.PhaseStopped })
	l.kill(l.agents["a2"])
	l.until("a2", "away", func(n *api.Node) bool { return !n.Status.Ready })
	m.must("env", "delete", "desk", "--yes")
	harness.Eventually(t, "it is gone", func() bool {
		_, err := m.cl.Get(t.Context(), devenv.Kind, "lab", "desk")
		return err != nil
	})
	l.kill(l.server) // who remembered that the home is to go
	l.serve()
	l.agent("a2", "")
	harness.Eventually(t, "its home is gone", func() bool {
		_, err := os.Stat(home)
		return os.IsNotExist(err)
	})
}

// answers tries a port of an environment, through the launcher's link.
func (m *member) answers(env string) {
	m.l.t.Helper()
	ctx, cancel := context.WithTimeout(m.l.t.Context(), harness.Patience)
	defer cancel()
	go m.shell(env, "cd $HOME && exec timeout 60 python3 -m http.server 8123 --bind 127.0.0.1")
	harness.Eventually(m.l.t, "its port answers", func() bool {
		line, err := client.OpenTunnel(ctx, m.cl, devenv.Kind, "lab", env, 8123)
		if err != nil {
			return false
		}
		defer line.Close()
		if _, err := io.WriteString(line, "GET /note HTTP/1.0\r\n\r\n"); err != nil {
			return false
		}
		all, _ := io.ReadAll(line)
		return strings.Contains(string(all), "mine")
	})
}

// ask asks a service once.
func (m *member) ask(at, service, path string) (int, string) {
	ctx, cancel := context.WithTimeout(m.l.t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/inference/%s/%s", at, service, path), nil)
	if err != nil {
		m.l.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+m.secret)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, string(text)
}

// TestService: replicas on two machines that joined answer through the server's gateway, also when both have the same address inside, while an agent
// dies, and when a machine goes; nobody without the servers' key gets to them.
func TestService(t *testing.T) {
	l := newLab(t, 3)
	l.join("a2")
	l.join("a3")
	m := l.member("ann")
	l.only("a2", "a3")
	replica := `from http.server import *
import os
class H(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = ("from " + os.environ["FERMI_NODE"]).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *a): pass
ThreadingHTTPServer(("", int(os.environ["FERMI_PORT"])), H).serve_forever()`
	m.must("service", "create", "who", "--replicas", "2", "--cpu", "1500m", "--memory", "256Mi", "--", "python3", "-c", replica)
	by := map[string]int{}
	for range 40 {
		status, body := m.ask(l.api, "who", "")
		if status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		by[body]++
	}
	if len(by) != 2 {
		t.Errorf("who answered: %v", by)
	}
	end, err := l.cl.Get(t.Context(), serving.EndpointsKind, "", "who")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range end.(*serving.ServiceEndpoints).Spec.Replicas {
		if e.Via == nil || e.Via.Agent != l.w.Host(e.Via.Node).At(7073) {
			t.Errorf("%s is reached by %+v", e.Replica, e.Via)
		}
	}
	if resp, err := http.Get("http://" + l.w.Host("a2").At(7073)); err == nil {
		t.Errorf("a stranger got %s from the agent's port", resp.Status)
		_ = resp.Body.Close()
	}

	// An agent that dies costs no answer: there is another replica, and the agent is back soon.
	l.kill(l.agents["a2"])
	for range 20 {
		if status, body := m.ask(l.api, "who", ""); status != 200 {
			t.Errorf("without an agent: %d %s", status, body)
		}
	}
	l.agent("a2", "")
	harness.Eventually(t, "both answer again", func() bool {
		_, body := m.ask(l.api, "who", "")
		return body == "from a2"
	})

	// A machine without power is left out, and the other one goes on.
	l.w.Host("a3").PowerOff()
	for range 20 {
		if status, body := m.ask(l.api, "who", ""); status != 200 || body != "from a2" {
			t.Errorf("without a machine: %d %s", status, body)
		}
	}
	m.must("service", "delete", "who", "--yes")
}
