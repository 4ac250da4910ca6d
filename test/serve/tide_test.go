package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// shore are four nodes with a device each.
const shore = `zones:
- {name: shore, region: r, nodes: [{count: 4, cpu: 8, memory: 64Gi, devices: {count: 1, type: A100}}]}
`

// slow is a server that takes a tenth of a second for each answer.
const slow = `
import http.server, os, time
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.path != "/healthz": time.sleep(0.1)
        body = b'{"replica": "r"}'
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("", int(os.environ["PORT"])), H).serve_forever()
`

// TestTide: the peak of a service takes devices from a member's preemptible training, which saves first and goes on with fewer; when the
// peak is over they are given back and the training grows again, from where it was. Few devices are idle, and no request waits for long.
func TestTide(t *testing.T) {
	zones := filepath.Join(t.TempDir(), "zones.yaml")
	if err := os.WriteFile(zones, []byte(shore), 0o600); err != nil {
		t.Fatal(err)
	}
	w := worldOf(t, "--zones", zones, "--quantum", "1s")
	ctx := t.Context()
	apply := func(text string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "wish.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.fermi("apply", "-f", file)
	}
	apply(`kind: TrainingTask
metadata: {name: night}
spec:
  priorityClass: preemptible
  preemptible: true
  roles:
  - {replicas: 3, minReplicas: 1, maxReplicas: 3, resources: {cpu: 100m, memory: 256Mi, accelerators: {count: 1}}, command: [fermi, sample, train, --shards, "6", --steps, "1000000", --step-time, 20ms]}
`)
	w.fermi("service", "create", "day", "--accelerators", "1", "--cpu", "100m", "--memory", "256Mi", "--max-concurrency", "2", "--timeout", "30s", "--health", "/healthz", "--", "python3", "-u", "-c", slow)
	w.fermi("service", "autoscale", "day", "--min", "1", "--max", "3", "--metric", "concurrency=2", "--window", "4s", "--down", "3s")
	task := func() *api.TrainingTask {
		t.Helper()
		o, err := client.Get[*api.TrainingTask](ctx, w.client(w.member), "lab", "night")
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	training := func(n int) func() bool {
		return func() bool { s := task().Status; return s.Phase == api.PhaseRunning && s.Replicas.Running == n }
	}
	answering := func() int { return w.service("day").Status.Replicas.Ready }
	harness.Eventually(t, "the training has what the service leaves", training(3))

	// What is held, from the first peak on.
	stop, held := make(chan struct{}), make(chan [2]int)
	go func() {
		var sum, all int
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				held <- [2]int{sum, all}
				return
			case <-tick.C:
			}
			s := task().Status
			sum, all = sum+min(4, s.Replicas.Running+len(w.replicas("day"))), all+4
		}
	}()
	for day := range harness.EnvInt("FERMI_TIDES", 1) {
		before := task().Status
		peak := w.stream("day", 6, w.gateway)
		harness.Eventually(t, "the peak has its replicas", func() bool { return answering() == 3 })
		harness.Eventually(t, "the training goes on with fewer", training(1))
		peak.more(t, 100)
		peak.done()
		rows := peak.since(time.Time{})
		if bad := failures(rows); len(bad) > 0 {
			t.Errorf("%d of %d questions failed, such as %s", len(bad), len(rows), bad[0])
		}
		worst := slices.MaxFunc(rows, func(a, b row) int { return int(a.took - b.took) }).took
		harness.Eventually(t, "the service shrinks, and the training grows again", func() bool { return answering() == 1 && training(3)() })
		after := task().Status
		if after.Attempt != before.Attempt || len(after.Restarts) != len(before.Restarts) {
			t.Errorf("attempt %d of %d, %d restarts: it was stopped, not made smaller", after.Attempt, before.Attempt, len(after.Restarts))
		}
		t.Logf("day %d: %d questions, the slowest took %s", day+1, len(rows), worst.Round(time.Millisecond))
		if goal := 10 * time.Second; worst > goal {
			t.Errorf("a question took %s", worst)
		}
	}
	close(stop)
	sums := <-held
	share := float64(sums[0]) / float64(sums[1])
	t.Logf("devices held: %.0f %% of the time", 100*share)
	if share < 0.85 {
		t.Errorf("devices are held %.0f %% of the time", 100*share)
	}
	if said := w.fermi("service", "autoscale", "day"); said == "" {
		t.Error("nothing says why")
	}
	for _, what := range []string{"service", "train"} {
		name := map[string]string{"service": "day", "train": "night"}[what]
		if out, err := w.try(what, "delete", name, "--yes"); err != nil && what == "service" {
			t.Error(fmt.Errorf("%w: %s", err, out))
		}
	}
}
