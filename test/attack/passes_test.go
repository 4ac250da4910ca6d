package attack

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/internal/server/port"
	"github.com/fermi-cluster/fermi/test/harness"
)

// as runs a command with a token, which may fail, and gives all that it said.
func (w *world) as(token string, args ...string) (said string, code int) {
	w.t.Helper()
	out, errs, code := w.run(token, args...)
	return out + errs, code
}

// joins makes a further member of mallory's project, and a token.
func (w *world) joins(name string, more ...string) (token string) {
	w.t.Helper()
	w.must("user", "create", name, "--role", "member")
	w.must("project", "add-member", lab, name)
	return strings.TrimSpace(w.must(append([]string{"token", "create", name + "-token", "--user", name}, more...)...))
}

// TestPasses: mallory, of ann's project, comes by the passes of what ann runs there, and is no more with them than before. Ann's
// environment is hers alone.
func TestPasses(t *testing.T) {
	w := invade(t, true)
	ann := w.joins("ann")
	for _, args := range [][]string{{"home"}, {"open", "--shared"}} {
		if said, code := w.as(ann, append([]string{"env", "create", "--cpu", "200m", "--memory", "128Mi"}, args...)...); code != 0 {
			t.Fatalf("%v: %s", args, said)
		}
	}
	if said, code := w.as(ann, "env", "shell", "home", "--", "sh", "-c", "echo hush-of-ann > $HOME/diary; fermi env keep home && echo mine"); code != 0 || !strings.Contains(said, "mine") {
		t.Fatalf("the control, ann's own pass in ann's own environment: %s", said)
	}
	const wishes = "for w in 'env stop home' 'env shell home -- cat $HOME/diary' 'env create more' 'train run --no-code --inside home -- true' 'cp home:diary /tmp/x'; do fermi $w >/tmp/said 2>&1 && echo DONE $w; cat /tmp/said; done; echo tried"
	tries := map[string]func() string{
		"an environment that ann shares": func() string {
			said, _ := w.as(w.malToken, "env", "shell", "open", "--", "sh", "-c", wishes)
			return said
		},
		"a task that is submitted from there": func() string {
			said, _ := w.as(w.malToken, "env", "shell", "open", "--", "fermi", "train", "run", "--name", "deputy", "--no-code", "--cpu", "100m", "--memory", "64Mi", "--", "sh", "-c", wishes)
			return said
		},
		"a service whose program mallory changes": func() string {
			if said, code := w.as(ann, "service", "create", "svc", "--engine", "sample", "--no-wait"); code != 0 {
				t.Fatal(said)
			}
			var said string
			harness.Eventually(t, "mallory may change the service", func() bool {
				status, answer := w.put("inference-services/svc?project="+lab, func(s map[string]any) {
					template := s["template"].(map[string]any)
					delete(template, "model")
					template["engine"], template["command"] = "custom", []string{"sh", "-c", wishes + "; sleep 1000"}
				})
				if status != http.StatusOK && status != http.StatusConflict { // its controller writes, too
					t.Fatalf("%d %s", status, answer)
				}
				return status == http.StatusOK
			})
			harness.Eventually(t, "the service says that it tried", func() bool {
				said, _ = w.as(w.malToken, "service", "logs", "svc")
				return strings.Contains(said, "tried")
			})
			return said
		},
	}
	for what, try := range tries {
		if said := try(); !strings.Contains(said, "tried") || strings.Contains(said, "DONE") || strings.Contains(said, "hush-of-ann") {
			t.Errorf("with the pass of %s: %s", what, said)
		}
	}
	w.environment("home", "Running")
	w.hold("passes")
}

// TestLinks: a link to a port ends with the token that made it, and with its maker's place in the project.
func TestLinks(t *testing.T) {
	w := invade(t, true)
	ann := w.joins("ann", "--expires", "1h")
	if said, code := w.as(ann, "env", "create", "home", "--cpu", "200m", "--memory", "128Mi", "--port", "8080"); code != 0 {
		t.Fatal(said)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.Addr+"/api/v1/dev-environments/home/ports/8080/share?for=100h&project="+lab, nil)
	w.do(err)
	req.Host = "localhost:" + w.Addr[strings.LastIndex(w.Addr, ":")+1:]
	req.Header.Set("Authorization", "Bearer "+ann)
	resp, err := http.DefaultClient.Do(req)
	w.do(err)
	defer resp.Body.Close()
	var made struct{ Data port.Shared }
	w.do(json.NewDecoder(resp.Body).Decode(&made))
	at, err := url.Parse(made.Data.URL)
	w.do(err)
	if left := time.Until(made.Data.EndsAt); left > time.Hour || left < 30*time.Minute {
		t.Errorf("a token of an hour made a link of %s", left)
	}
	enter := func() int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.Addr+at.Path, strings.NewReader(at.Fragment))
		w.do(err)
		req.Host = at.Host
		resp, err := http.DefaultClient.Do(req)
		w.do(err)
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := enter(); got != http.StatusNoContent {
		t.Fatalf("the control: %d", got)
	}
	w.must("project", "remove-member", lab, "ann")
	harness.Eventually(t, "the link of who left the project opens nothing", func() bool { return enter() == http.StatusUnauthorized })
	w.must("project", "add-member", lab, "ann")
	harness.Eventually(t, "it opens again", func() bool { return enter() == http.StatusNoContent })
	w.must("user", "disable", "ann")
	harness.Eventually(t, "the link of who is disabled opens nothing", func() bool { return enter() == http.StatusUnauthorized })
	w.hold("links")
}
