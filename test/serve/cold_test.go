package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/test/harness"
)

// stamped is a server that says when its process was started and when it could answer.
const stamped = `
import http.server, json, os, socketserver, time
boot = time.time() - float(open("/proc/uptime").read().split()[0])
started = boot + int(open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = json.dumps({"exec": started, "ready": ready}).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
class S(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
s = S(("", int(os.environ["PORT"])), H)
ready = time.time()
s.serve_forever()
`

// TestColdStarts: services go to none and come back with the first question, FERMI_COLD_STARTS times in all, several at once. No
// question is lost. What the platform takes is until the process is started, and from when it could answer until it has answered.
func TestColdStarts(t *testing.T) {
	w := newWorld(t)
	starts, sides := harness.EnvInt("FERMI_COLD_STARTS", 12), harness.EnvInt("FERMI_COLD_SIDES", 2)
	var mu sync.Mutex
	var ours, begins, ends []time.Duration
	// What the platform has recorded of the way: until its replica was made, placed, its process begun, and until it was known to answer.
	var made, placed, started, ready []time.Duration
	var wg sync.WaitGroup
	for side := range sides {
		name := fmt.Sprintf("cold-%d", side)
		w.fermi("service", "create", name, "--timeout", "1m", "--", "python3", "-S", "-u", "-c", stamped)
		w.fermi("service", "autoscale", name, "--min", "0", "--max", "1", "--metric", "concurrency=4", "--window", "2s", "--down", "1s")
	}
	for side := range sides {
		name := fmt.Sprintf("cold-%d", side)
		wg.Go(func() {
			for n := side; n < starts; n += sides {
				harness.Eventually(t, "no replica is left", func() bool { return len(w.replicas(name)) == 0 })
				asked := time.Now()
				status, body, err := ask(t.Context(), http.MethodGet, w.gateway+"/inference/"+name+"/", w.key, nil)
				answered := time.Now()
				var at struct{ Exec, Ready float64 }
				if err != nil || status != 200 || json.Unmarshal([]byte(body), &at) != nil {
					t.Errorf("start %d is lost: %d %s %v", n, status, body, err)
					return
				}
				moment := func(s float64) time.Time { return time.UnixMicro(int64(s * 1e6)) }
				begin, end := moment(at.Exec).Sub(asked), answered.Sub(moment(at.Ready))
				mu.Lock()
				begins, ends, ours = append(begins, begin), append(ends, end), append(ours, begin+end)
				for _, r := range w.replicas(name) {
					if s := &r.Status; s.PlacedAt != nil && s.StartedAt != nil && s.ReadyAt != nil {
						made, placed = append(made, r.Meta.CreatedAt.Sub(asked)), append(placed, s.PlacedAt.Sub(r.Meta.CreatedAt))
						started, ready = append(started, s.StartedAt.Sub(*s.PlacedAt)), append(ready, s.ReadyAt.Sub(*s.StartedAt))
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(ours) == 0 {
		return
	}
	for _, l := range [][]time.Duration{ours, begins, ends, made, placed, started, ready} {
		slices.Sort(l)
	}
	p := func(l []time.Duration, share int) time.Duration {
		if len(l) == 0 {
			return 0
		}
		return l[min(len(l)*share/100, len(l)-1)].Round(time.Millisecond)
	}
	t.Logf("%d cold starts: ours p50 %s p95 %s; first byte to exec p50 %s p95 %s; ready to answered p50 %s p95 %s", len(ours), p(ours, 50), p(ours, 95), p(begins, 50), p(begins, 95), p(ends, 50), p(ends, 95))
	t.Logf("as recorded, p50 of %d: until its replica was made %s, placed %s, its process begun %s, known to answer %s", len(made), p(made, 50), p(placed, 50), p(started, 50), p(ready, 50))
	if len(made) == 0 {
		t.Error("no start has its parts recorded")
	}
}
