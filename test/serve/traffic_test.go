package serve

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// plain is a server that says which revision it is; BAD makes it fail every question but that of its health.
const plain = `
import http.server, json, os
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        bad = os.environ.get("BAD") and self.path != "/healthz"
        body = json.dumps({"model": "spirals", "replica": os.environ.get("LABEL", "first")}).encode()
        self.send_response(500 if bad else 200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("", int(os.environ["PORT"])), H).serve_forever()
`

func (w *world) service(name string) *serving.InferenceService {
	w.t.Helper()
	s, err := client.Get[*serving.InferenceService](w.t.Context(), w.client(w.member), "lab", name)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// TestTraffic: a member has a new revision take over step by step under load, a bad one is rolled back by itself, a group
// of requests is sent to the one by a header, replicas go to none and come back with the first question, and each decision is explained.
func TestTraffic(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.fermi("service", "create", "canary", "--replicas", "2", "--health", "/healthz", "--", "python3", "-u", "-c", plain)
	w.fermi("service", "canary", "canary", "--steps", "5,50,100", "--every", "2s", "--min-requests", "5")

	l := w.load("canary")
	l.more(t, 20)
	w.fermi("service", "update", "canary", "--env", "LABEL=second")
	harness.Eventually(t, "the new revision has taken over", func() bool {
		s := w.service("canary")
		return s.Status.Reason == "Ready" && s.Status.Revision == 2 && s.Status.Canary == nil
	})
	l.more(t, 50)
	l.check(t, "a canary of 5, 50 and 100 percent")
	if l.by["first"] == 0 || l.by["second"] == 0 {
		t.Errorf("answered by %v", l.by)
	}
	if shown := w.fermi("service", "traffic", "canary"); !strings.Contains(shown, "100%") {
		t.Errorf("traffic: %s", shown)
	}

	// A revision whose answers are bad goes by itself; nobody gets it any more.
	w.fermi("service", "update", "canary", "--env", "BAD=1", "--no-wait")
	harness.Eventually(t, "the bad revision is rolled back", func() bool {
		for range 20 {
			_, _, _ = ask(ctx, http.MethodGet, w.gateway+"/inference/canary/", w.key, nil)
		}
		s := w.service("canary")
		return s.Status.Canary != nil && s.Status.Canary.Verdict == serving.RolledBack && len(w.replicas("canary")) == 2
	})
	l = w.load("canary")
	l.more(t, 100)
	l.check(t, "after the rollback")
	if said := w.fermi("events", "service/canary"); !strings.Contains(said, "RolledBack") || !strings.Contains(said, "TooManyErrors") || !strings.Contains(said, "Promoted") {
		t.Errorf("events: %s", said)
	}

	// A group by a header, a step by hand, and the way back by hand.
	w.fermi("service", "canary", "canary", "--steps", "1,100", "--manual")
	w.fermi("service", "traffic", "canary", "--rule", "header:X-Group=b:canary", "--rule", "percent:100:stable")
	w.fermi("service", "update", "canary", "--env", "BAD=", "--env", "LABEL=third")
	harness.Eventually(t, "the group is sent to the new revision, all others to the stable one", func() bool {
		for range 5 {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, w.gateway+"/inference/canary/", nil)
			req.Header.Set("Authorization", "Bearer "+w.key)
			req.Header.Set("X-Group", "b")
			if body := read(req); !strings.Contains(body, "third") {
				return false
			}
			req.Header.Del("X-Group")
			if body := read(req); !strings.Contains(body, "second") {
				t.Errorf("without the header: %s", body)
			}
		}
		return true
	})
	w.fermi("service", "promote", "canary")
	harness.Eventually(t, "the second step", func() bool { c := w.service("canary").Status.Canary; return c != nil && c.Percent == 100 })
	w.fermi("service", "rollback", "canary")
	harness.Eventually(t, "the way back", func() bool {
		c := w.service("canary").Status.Canary
		return c != nil && c.Verdict == serving.RolledBack && c.Stable == 2
	})

	// None while nobody asks; the first question waits for the replica that it starts.
	w.fermi("service", "canary", "canary", "--off")
	w.fermi("service", "autoscale", "canary", "--min", "0", "--max", "2", "--metric", "concurrency=4", "--window", "2s", "--down", "1s")
	harness.Eventually(t, "no replica is left", func() bool { return len(w.replicas("canary")) == 0 })
	for n := range 3 {
		begun := time.Now()
		if status, body, err := ask(ctx, http.MethodGet, w.gateway+"/inference/canary/", w.key, nil); err != nil || status != 200 {
			t.Fatalf("from zero: %d %s %v", status, body, err)
		}
		t.Logf("from zero: %s", time.Since(begun).Round(time.Millisecond))
		if n < 2 {
			harness.Eventually(t, "no replica is left again", func() bool { return len(w.replicas("canary")) == 0 })
		}
	}
	if said := w.fermi("service", "autoscale", "canary"); !strings.Contains(said, "FromZero") || !strings.Contains(said, "Idle") {
		t.Errorf("why: %s", said)
	}
	w.fermi("service", "delete", "canary", "--yes")
}

func read(req *http.Request) string {
	status, body, err := ask(req.Context(), req.Method, req.URL.String(), strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer "), nil, "X-Group", req.Header.Get("X-Group"))
	return fmt.Sprint(status, body, err)
}
