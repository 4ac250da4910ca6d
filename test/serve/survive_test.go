package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/test/harness"
)

// row is one question and what became of it.
type row struct {
	at     time.Time
	took   time.Duration
	by     string // the replica that answered
	failed string
}

// stream asks a service without a pause from several sides, as a client that knows several gateways: where one takes no connection,
// or drops it, the next one is asked, once.
type stream struct {
	done func()
	mu   sync.Mutex
	rows []row
}

func (w *world) stream(service string, sides int, gateways ...string) *stream {
	ctx, cancel := context.WithCancel(w.t.Context())
	s := &stream{}
	var wg sync.WaitGroup
	for side := range sides {
		wg.Go(func() {
			for n := side; ctx.Err() == nil; n++ {
				r := row{at: time.Now()}
				for try := range 2 {
					status, body, err := ask(context.WithoutCancel(ctx), http.MethodGet, gateways[(n+try)%len(gateways)]+"/inference/"+service+"/", w.key, nil)
					var about struct{ Replica string }
					r.failed = ""
					if err != nil || status != 200 || json.Unmarshal([]byte(body), &about) != nil {
						r.failed = fmt.Sprintf("%d %v %.200s", status, err, body)
					}
					r.by = about.Replica
					var broken *net.OpError
					if err == nil || !errors.As(err, &broken) && !strings.Contains(err.Error(), "EOF") {
						break
					}
				}
				r.took = time.Since(r.at)
				s.mu.Lock()
				s.rows = append(s.rows, r)
				s.mu.Unlock()
			}
		})
	}
	s.done = func() { cancel(); wg.Wait() }
	return s
}

// since are the questions that were asked from a moment on.
func (s *stream) since(from time.Time) (out []row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rows {
		if !r.at.Before(from) {
			out = append(out, r)
		}
	}
	return out
}

// more waits for so many more answers.
func (s *stream) more(t *testing.T, n int) {
	t.Helper()
	from := time.Now()
	harness.Eventually(t, fmt.Sprintf("%d more questions are asked", n), func() bool { return len(s.since(from)) >= n })
}

func failures(rows []row) (out []string) {
	for _, r := range rows {
		if r.failed != "" {
			out = append(out, r.at.Format("15:04:05.000")+" "+r.failed)
		}
	}
	return out
}

// p99 is the time in which 99 of 100 were answered.
func p99(rows []row) time.Duration {
	list := make([]time.Duration, 0, len(rows))
	for _, r := range rows {
		list = append(list, r.took)
	}
	slices.Sort(list)
	return list[len(list)*99/100]
}

// launchers are the processes that look after the replicas of a service in a zone.
func (w *world) launchers(service, zone string) (pids []int) {
	w.t.Helper()
	for _, r := range w.replicas(service) {
		if r.Spec.Zone == zone {
			pids = append(pids, harness.Processes("FERMI_TASK_ID="+r.Meta.ID)...)
			found, _ := filepath.Glob(filepath.Join(w.c.Dir, "engine", "replicas", r.Meta.ID+"-*"))
			for _, dir := range found {
				pids = append(pids, pidsIn(dir)...)
			}
		}
	}
	return pids
}

// pidsIn are the processes whose command line names a folder.
func pidsIn(dir string) (pids []int) {
	list, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range list {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), dir) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/", &pid); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestZoneKilled: a zone of a service dies with all its processes under load. From five seconds on no question fails; how long
// the other zone takes then is printed. When the zone is back it gets its share again.
func TestZoneKilled(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	file := filepath.Join(t.TempDir(), "service.yaml")
	if err := os.WriteFile(file, []byte(`kind: InferenceService
metadata: {name: spread}
spec:
  template: {engine: sample}
  zones:
  - {zone: beijing-1, replicas: 2, weight: 80}
  - {zone: shanghai-1, replicas: 2, weight: 20}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	w.fermi("apply", "-f", file)
	ready := func(n int) func() bool {
		return func() bool { return w.service("spread").Status.Replicas.Ready >= n }
	}
	harness.Eventually(t, "all four answer", ready(4))
	where := map[string]string{} // zones by the ids of replicas
	for _, r := range w.replicas("spread") {
		where[r.Meta.ID] = r.Spec.Zone
	}
	north := func(rows []row) (n int) {
		for _, r := range rows {
			for id, zone := range where {
				if zone == "beijing-1" && strings.HasPrefix(r.by, id) {
					n++
				}
			}
		}
		return n
	}
	s := w.stream("spread", 4, w.gateway)
	begun := time.Now()
	s.more(t, 2000)
	calm := s.since(begun)
	if share := float64(north(calm)) / float64(len(calm)); share < 0.7 || share > 0.9 {
		t.Errorf("a zone with 80 of 100 gets %.0f of 100", 100*share)
	}
	victims := w.launchers("spread", "beijing-1")
	if len(victims) < 2 {
		t.Fatalf("%d processes in the zone", len(victims))
	}
	admin, err := w.c.Client()
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range victims {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	died := time.Now()
	w.outage(admin, true)
	harness.Eventually(t, "five seconds are over", func() bool { return time.Since(died) > 5*time.Second })
	after := time.Now()
	s.more(t, 2000)
	first, later := failures(s.since(died)), failures(s.since(after))
	if len(later) > 0 {
		t.Errorf("%d questions fail five seconds after, such as %s", len(later), later[0])
	}
	t.Logf("%d processes killed; questions that failed: %d in all, %d after five seconds; p99 %s before, %s after", len(victims), len(first), len(later), p99(calm), p99(s.since(after)))
	w.outage(admin, false)
	harness.Eventually(t, "the zone answers again", func() bool {
		back := 0
		for _, r := range w.replicas("spread") {
			where[r.Meta.ID] = r.Spec.Zone
			if r.Spec.Zone == "beijing-1" && r.Status.Ready {
				back++
			}
		}
		from := time.Now()
		s.more(t, 50)
		return back == 2 && north(s.since(from)) > 0
	})
	s.done()
	if all := failures(s.since(died)); len(all) > len(first) {
		t.Errorf("a question fails when the zone is back: %s", all[len(all)-1])
	}
	if _, err := admin.Get(ctx, serving.Kind, "lab", "spread"); err != nil {
		t.Error(err)
	}
	w.fermi("service", "delete", "spread", "--yes")
}

// TestGatewayKilled: one of two gateways is killed again and again under load; a client that knows both loses nothing.
func TestGatewayKilled(t *testing.T) {
	w := newWorld(t)
	w.fermi("service", "create", "spirals", "--engine", "sample", "--replicas", "2")
	at := freeAddress(t)
	one := w.runGateway(at, "http")
	s := w.stream("spirals", 4, "http://"+at, w.gateway)
	for range harness.EnvInt("FERMI_GATEWAY_KILLS", 3) {
		s.more(t, 200)
		if err := one.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = one.Wait()
		s.more(t, 200)
		one = w.runGateway(at, "http")
	}
	s.more(t, 200)
	s.done()
	all := s.since(time.Time{})
	if bad := failures(all); len(bad) > 0 {
		t.Errorf("%d of %d questions failed, such as %s", len(bad), len(all), bad[0])
	}
	t.Logf("%d questions, all answered", len(all))
	w.fermi("service", "delete", "spirals", "--yes")
}

// outage takes the zone out, or back.
func (w *world) outage(admin *client.Client, out bool) {
	w.t.Helper()
	token, err := os.ReadFile(filepath.Join(w.c.Dir, "admin.token"))
	if err != nil {
		w.t.Fatal(err)
	}
	was := w.member
	defer func() { w.member = was }()
	w.member = strings.TrimSpace(string(token))
	if out {
		w.fermi("zone", "outage", "beijing-1", "--yes")
		return
	}
	w.fermi("zone", "recover", "beijing-1")
}
