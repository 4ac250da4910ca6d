package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/fermi-cluster/fermi/test/harness"
)

// put reads an object, has it changed, and writes it back, as mallory.
func (w *world) put(path string, change func(spec map[string]any)) (status int, answer string) {
	w.t.Helper()
	call := func(method string, body []byte) (int, map[string]any) {
		req, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.Addr+"/api/v1/"+path, strings.NewReader(string(body)))
		w.do(err)
		req.Header.Set("Authorization", "Bearer "+w.malToken)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		w.do(err)
		defer resp.Body.Close()
		var out map[string]any
		w.do(json.NewDecoder(resp.Body).Decode(&out))
		return resp.StatusCode, out
	}
	status, read := call(http.MethodGet, nil)
	if status != http.StatusOK {
		w.t.Fatalf("GET %s: %v", path, read)
	}
	object := read["data"].(map[string]any)
	change(object["spec"].(map[string]any))
	body, err := json.Marshal(object)
	w.do(err)
	status, said := call(http.MethodPut, body)
	return status, fmt.Sprint(said)
}

// environment waits until one of mallory's is in this state, as people read it.
func (w *world) environment(name, state string) {
	w.t.Helper()
	harness.Eventually(w.t, name+" is "+state, func() bool {
		out, _, _ := w.run(w.malToken, "env", "list")
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, name+" ") && strings.Contains(line, state) {
				return true
			}
		}
		return false
	})
}

// TestChangedWork: what may not be asked for at the beginning may not be asked for later either.
func TestChangedWork(t *testing.T) {
	w := invade(t, true)
	w.must("queue", "create", "vips", "--projects", other)
	as := func(args ...string) {
		t.Helper()
		if out, errs, code := w.run(w.malToken, args...); code != 0 {
			t.Fatalf("%v: %s %s", args, out, errs)
		}
	}
	as("env", "create", "lab")
	w.environment("lab", "Running")
	as("env", "stop", "lab")
	w.environment("lab", "Stopped")
	environment := "dev-environments/lab?project=" + lab
	for what, c := range map[string]struct {
		reason string
		change func(map[string]any)
	}{
		"a queue of others": {"QueueNotAllowed", func(s map[string]any) { s["queue"] = "vips" }},
		"a high priority":   {"PriorityNotAllowed", func(s map[string]any) { s["priority"] = 10_000 }},
		"a secret that is none": {"nothing-of-mine", func(s map[string]any) {
			s["env"] = []any{map[string]any{"name": "A", "valueFrom": map[string]any{"secret": "nothing-of-mine", "key": "k"}}}
		}},
	} {
		if status, said := w.put(environment, c.change); status/100 != 4 || !strings.Contains(said, c.reason) {
			t.Errorf("an environment with %s: %d %s", what, status, said)
		}
	}
	if status, said := w.put(environment, func(s map[string]any) { s["description"], s["priority"] = "mine", 100 }); status != http.StatusOK {
		t.Errorf("the control: %d %s", status, said)
	}
	// Another control: a zone by the name that people see.
	as("env", "create", "there", "--zone", "北京-1", "--no-wait")
	if out, _, _ := w.run(w.malToken, "env", "get", "there", "-o", "yaml"); !strings.Contains(out, "zone: beijing-1") {
		t.Errorf("a zone's display name: %s", out)
	}
	as("service", "create", "svc", "--engine", "sample", "--no-wait")
	service := "inference-services/svc?project=" + lab
	for what, code := range map[string]map[string]any{
		"a folder that nobody granted": {"folder": "/etc"}, "the platform's folder": {"folder": w.Dir}, "another's folder": {"folder": "private"},
		"an archive that nobody sent": {"archive": "sha256:" + strings.Repeat("ab", 32)},
	} {
		status, said := w.put(service, func(s map[string]any) {
			template := s["template"].(map[string]any)
			template["engine"], template["command"], template["code"] = "custom", []string{"cat", "admin.token"}, code
		})
		if status/100 != 4 || !strings.Contains(said, "code") {
			t.Errorf("a service with %s: %d %s", what, status, said)
		}
	}
	// What an operator takes away is away at the next start.
	w.must("queue", "create", "theirs", "--projects", lab)
	if status, said := w.put(environment, func(s map[string]any) { s["queue"] = "theirs" }); status != http.StatusOK {
		t.Fatalf("%d %s", status, said)
	}
	w.must("queue", "set", "theirs", "--projects", other)
	if out, errs, code := w.run(w.malToken, "env", "start", "lab"); code == 0 || !strings.Contains(errs, "theirs") {
		t.Errorf("started in a queue that was taken away: %s %s", out, errs)
	}
	w.hold("changed work")
}

// TestTerminals: a terminal is nobody else's, not even another replica's of the same project, whose uid is the same.
func TestTerminals(t *testing.T) {
	w := invade(t, true)
	as := func(stdin, token string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), w.Bin, args...)
		cmd.Env = append(os.Environ(), "FERMI_SERVER=http://"+w.Addr, "FERMI_TOKEN="+token, "FERMI_LANG=en", "HOME="+t.TempDir())
		cmd.Stdin = strings.NewReader(stdin)
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	w.must("user", "create", "eve", "--role", "member")
	w.must("project", "add-member", lab, "eve")
	eve := strings.TrimSpace(w.must("token", "create", "eve-token", "--user", "eve"))
	as("", w.malToken, "env", "create", "mine")
	as("", eve, "env", "create", "spy")
	w.environment("mine", "Running")
	w.environment("spy", "Running")
	if out := as("", eve, "env", "shell", "mine", "--", "id"); strings.Contains(out, "uid=") {
		t.Fatalf("eve entered: %s", out)
	}
	// Mallory sits at a terminal; it stays while eve looks for it.
	sits := exec.CommandContext(t.Context(), "script", "-qefc", w.Bin+" env shell mine", "/dev/null")
	sits.Env = append(os.Environ(), "FERMI_SERVER=http://"+w.Addr, "FERMI_TOKEN="+w.malToken, "HOME="+t.TempDir())
	in, err := sits.StdinPipe()
	w.do(err)
	screen := &recorder{}
	sits.Stdout = screen
	w.do(sits.Start())
	defer func() { _ = in.Close(); _ = sits.Wait() }()
	_, err = in.Write([]byte("tty; echo here-$((40+2))\n"))
	w.do(err)
	harness.Eventually(t, "mallory's shell answers", func() bool { return strings.Contains(string(screen.bytes()), "here-42") })
	if at := string(screen.bytes()); !strings.Contains(at, "/dev/pts/") {
		t.Errorf("a terminal without a name: %q", at)
	}
	out := as("", eve, "env", "shell", "spy", "--", "sh", "-c", `for p in /dev/pts/[0-9]*; do test -e $p && echo "found $p" && echo seen-by-mallory > $p; done; ls /dev/pts; echo looked`)
	if strings.Contains(out, "found ") || !strings.Contains(out, "looked") {
		t.Errorf("eve finds terminals of others: %s", out)
	}
	_, err = in.Write([]byte("echo again-$((1+2)); exit\n"))
	w.do(err)
	harness.Eventually(t, "mallory's shell ends", func() bool { return strings.Contains(string(screen.bytes()), "again-3") })
	if strings.Contains(string(screen.bytes()), "seen-by-mallory") {
		t.Error("eve wrote to mallory's terminal")
	}
	// Programs make terminals of their own behind the wall.
	if out := as("", eve, "env", "shell", "spy", "--", "script", "-qec", "tty", "/dev/null"); !strings.Contains(out, "/dev/pts/") {
		t.Errorf("a program's own terminal: %s", out)
	}
	w.hold("terminals")
}
