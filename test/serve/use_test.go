package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/test/harness"
)

// burner is a server that computes for each answer.
const burner = `
import http.server, os, time
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        end = time.process_time() + (0.02 if self.path != "/healthz" else 0)
        while time.process_time() < end: pass
        body = b'{"replica": "r"}'
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("", int(os.environ["PORT"])), H).serve_forever()
`

// TestScaleByUse: replicas whose cores are busy become more, by what their launchers see, and fewer again when nobody asks.
func TestScaleByUse(t *testing.T) {
	w := newWorld(t)
	w.fermi("service", "create", "burn", "--cpu", "200m", "--memory", "256Mi", "--health", "/healthz", "--", "python3", "-u", "-c", burner)
	w.fermi("service", "autoscale", "burn", "--min", "1", "--max", "2", "--metric", "cpu=60", "--window", "10s", "--down", "2s")
	load := w.stream("burn", 2, w.gateway)
	harness.Eventually(t, "busy cores have two replicas", func() bool { return w.service("burn").Status.Replicas.Ready == 2 })
	load.done()
	if bad := failures(load.since(time.Time{})); len(bad) > 0 {
		t.Errorf("%d questions failed, such as %s", len(bad), bad[0])
	}
	why := w.service("burn").Status.Scale
	if why == nil || len(why.Log) == 0 || why.Log[0].To != 2 || len(why.Log[0].Message.EN) < 4 || why.Log[0].Message.EN[:3] != "cpu" {
		t.Errorf("%+v", why)
	}
	harness.Eventually(t, "idle cores have one", func() bool { return w.service("burn").Status.Replicas.Ready == 1 })
	w.fermi("service", "delete", "burn", "--yes")
}

// TestZonesScale: a service over zones gets as many replicas as it scales to, each zone by its weight and within its bounds, and a backup beside them.
func TestZonesScale(t *testing.T) {
	w := newWorld(t)
	wish := filepath.Join(t.TempDir(), "wide.yaml")
	if err := os.WriteFile(wish, []byte(`kind: InferenceService
metadata: {name: wide}
spec:
  zones: [{zone: beijing-1, weight: 2}, {zone: shanghai-1, weight: 1, maxReplicas: 1}, {zone: beijing-2, role: backup}]
  autoscale: {minReplicas: 3, maxReplicas: 3}
  template: {engine: sample}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	w.fermi("apply", "-f", wish)
	stands := func(want string) func() bool {
		return func() bool {
			n := map[string]int{}
			for _, r := range w.replicas("wide") {
				if r.Status.Ready {
					n[r.Status.Zones[0]]++
				}
			}
			return fmt.Sprint(n) == want
		}
	}
	harness.Eventually(t, "three are shared by weight", stands("map[beijing-1:2 beijing-2:1 shanghai-1:1]"))
	w.fermi("service", "autoscale", "wide", "--min", "4", "--max", "4")
	harness.Eventually(t, "the fourth stands where there is room for it", stands("map[beijing-1:3 beijing-2:1 shanghai-1:1]"))
	w.fermi("service", "delete", "wide", "--yes")
}

// TestZonesSaid: a member says where a running service stands and how its zones share requests, sees it, and takes it back.
func TestZonesSaid(t *testing.T) {
	w := newWorld(t)
	w.fermi("service", "create", "said", "--engine", "sample")
	if out := w.fermi("service", "zones", "said"); out != "Its replicas stand anywhere: it names no zones.\n" {
		t.Errorf("%q", out)
	}
	out := w.fermi("service", "zones", "said", "beijing-1=2:80", "shanghai-1=1:20", "--backup", "beijing-2=1", "--serves", "shanghai-1=east", "--balance")
	for _, row := range []string{`beijing-1 +2/2 +80%`, `shanghai-1 +1/1 +20% +east`, `beijing-2 +1/1 +backup`} {
		if !regexp.MustCompile(`(?m)^` + row + ` *$`).MatchString(out) {
			t.Errorf("no row %q in\n%s", row, out)
		}
	}
	if g := w.service("said").Spec.Gateway; g == nil || g.Zones != serving.ZonesBalanced {
		t.Errorf("%+v", g)
	}

	// A gateway hears of it, and a region's requests go where it is served.
	answers := func() (zone string) {
		status, body, err := ask(t.Context(), http.MethodGet, w.gateway+"/inference/said/", w.key, nil, "X-Fermi-Region", "east")
		var about struct{ Replica string }
		if err != nil || status != 200 || json.Unmarshal([]byte(body), &about) != nil {
			t.Fatalf("%d %s %v", status, body, err)
		}
		for _, r := range w.replicas("said") {
			if strings.HasPrefix(about.Replica, r.Meta.ID+"-") {
				return r.Status.Zones[0]
			}
		}
		return ""
	}
	harness.Eventually(t, "the gateway knows the zones", func() bool { return answers() == "shanghai-1" })
	for range 20 {
		if zone := answers(); zone != "shanghai-1" {
			t.Fatalf("a request of the east went to %q", zone)
		}
	}

	for _, bad := range [][]string{{"nowhere=0"}, {"beijing-1=1", "nowhere=1"}, {"beijing-1=1:x"}, {"--serves", "mars=east"}} {
		if out, err := w.try(append([]string{"service", "zones", "said"}, bad...)...); err == nil {
			t.Errorf("%v was taken: %s", bad, out)
		}
	}
	if out := w.fermi("service", "zones", "said", "--off"); out != "Its replicas stand anywhere: it names no zones.\n" {
		t.Errorf("%q", out)
	}
	s := w.service("said")
	if len(s.Spec.Zones) > 0 || s.Spec.Gateway != nil && s.Spec.Gateway.Zones != "" || s.Spec.Replicas != 4 {
		t.Errorf("%+v", s.Spec)
	}
	if status, body, err := ask(t.Context(), http.MethodGet, w.gateway+"/inference/said/", w.key, nil); err != nil || status != 200 {
		t.Errorf("%d %s %v", status, body, err)
	}
	if out, err := w.try("service", "create", "lost", "--engine", "sample", "--zone", "nowhere=1"); err == nil || !strings.Contains(out, "spec.zones[0].zone") || !strings.Contains(out, "beijing-1") {
		t.Errorf("a zone that is not there was taken: %s", out)
	}
	if out, err := w.try("service", "zones", "said", "--balance"); err == nil {
		t.Errorf("zones that are none were balanced: %s", out)
	}
	w.fermi("service", "delete", "said", "--yes")
}
