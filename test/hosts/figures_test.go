package hosts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/where"
	"github.com/fermi-cluster/fermi/test/harness"
	"github.com/fermi-cluster/fermi/test/hosts/world"
)

// figures are what TestFigures measured, for whoever asks with FERMI_HOSTS_FIGURES=FILE; it compares nothing itself.
type figures struct {
	Kills []float64            `json:"kills"` // SIGKILL of a rank → all ranks have made a step, in seconds
	Lost  []map[string]float64 `json:"lost"`  // a host without power: the product's own figures by phase, in seconds
	// Alone is on one host; Apart over two zones; both in samples a second and rank.
	Alone    float64   `json:"alone"`
	Apart    []float64 `json:"apart"`
	Untaught float64   `json:"untaught"` // efficiency by the preview, in percent, before any run
	Taught   float64   `json:"taught"`   // and after the first over two zones
}

const figureRTT = 12 * time.Millisecond

// TestFigures: PyTorch over four machines in two zones 12 ms apart. Ranks are killed and machines lose power, and it steps again each time; the same work on one
// machine and over both zones is what the preview learns its efficiency from.
func TestFigures(t *testing.T) {
	var f figures
	machines := []string{"a2", "a3", "b1", "b2"}
	rounds := harness.EnvInt("FERMI_HOSTS_ROUNDS", 1)
	l := newLabOf(t, world.Config{Zones: []world.Zone{{Name: "a", Hosts: 3}, {Name: "b", Hosts: 2}}, Link: world.Link{RTT: figureRTT}})
	l.twoZones(machines)
	l.only(machines...)
	l.apart(&f)
	l.killsAndLosses(&f, machines, rounds)
	if path := os.Getenv("FERMI_HOSTS_FIGURES"); path != "" {
		raw, err := json.Marshal(f)
		if err == nil {
			err = os.WriteFile(path, raw, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%+v", f)
}

func script(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// apart runs the same work on one machine and over two zones.
func (l *lab) apart(f *figures) {
	l.t.Helper()
	text := script(l.t, "work.py")
	task := func(number, replicas int, split where.Split) *api.TrainingTask {
		r := api.Role{Name: "worker", Replicas: replicas, Command: []string{"/usr/bin/python3", "-c", text}, Resources: api.Resources{CPU: 1200, Memory: 512 << 20}}
		return &api.TrainingTask{Meta: api.Meta{Name: fmt.Sprint("work-", number), DisplayName: fmt.Sprint("work ", number), Project: "default"}, Spec: api.TrainingTaskSpec{
			Framework: "pytorch-ddp", Roles: []api.Role{r}, Zones: &api.ZoneRules{MaxLatency: api.Duration(50 * time.Millisecond), Split: split},
		}}
	}
	run := func(t *api.TrainingTask) (rate float64) {
		l.t.Helper()
		if _, err := l.cl.Create(l.t.Context(), t, false); err != nil {
			l.t.Fatal(err)
		}
		l.phase(t.Meta.Name, api.PhaseCompleted)
		harness.Eventually(l.t, "its rate is in the log", func() bool {
			_, after, _ := strings.Cut(l.logs(t.Meta.Name), "rate ")
			n, err := fmt.Sscan(after, &rate)
			return err == nil && n == 1
		})
		return rate
	}
	preview := func(number int) api.EfficiencyNote {
		l.t.Helper()
		p, err := l.cl.Preview(l.t.Context(), task(number, 2, bothZones))
		if err != nil || p.Planned == nil {
			l.t.Fatalf("%+v %v", p, err)
		}
		return p.Planned.Efficiency
	}
	harness.Eventually(l.t, "the way between the zones is measured", func() bool {
		p, err := l.cl.Preview(l.t.Context(), task(1, 2, bothZones))
		return err == nil && p.Planned != nil && p.Planned.Latency.Source == "measured"
	})
	f.Untaught = preview(1).Percent
	f.Alone = run(task(1, 1, nil))
	f.Apart = append(f.Apart, run(task(2, 2, bothZones)))
	harness.Eventually(l.t, "the preview has learned", func() bool { return preview(3).Basis == "measured" })
	f.Taught = preview(3).Percent
	f.Apart = append(f.Apart, run(task(3, 2, bothZones)))
}

// killsAndLosses kills ranks, and takes power from machines, of one training over all machines.
func (l *lab) killsAndLosses(f *figures, machines []string, rounds int) {
	l.t.Helper()
	l.submit("stepping", len(machines), func(t *api.TrainingTask) {
		training(true)(t)
		r := &t.Spec.Roles[0]
		r.Standby = &api.Standby{Preload: []string{"torch"}}
		t.Spec.Framework, t.Spec.Code = "pytorch-ddp", &api.Code{Archive: l.archive("stepping.py")}
		t.Spec.Restart.MaxRestarts, t.Spec.Restart.Window = 100, api.Duration(time.Hour)
	}, "/usr/bin/python3", "stepping.py")
	l.phase("stepping", api.PhaseRunning)
	id := l.task("stepping").Meta.ID
	whole := func() { // all machines take part, each rank has made a step in this generation, and what failed before is over
		l.t.Helper()
		harness.Eventually(l.t, "it steps on all machines", func() bool {
			s := l.task("stepping").Status
			in := s.Interruptions
			return s.Phase == api.PhaseRunning && len(l.stepped(id, s.Generation)) == len(machines) && (in == nil || in.Count == in.Recovered)
		})
	}
	for i := range rounds {
		whole()
		before, h := l.task("stepping").Status, l.w.Host(machines[i%len(machines)])
		at := l.killRank(id, h, before.Generation)
		var last time.Time
		harness.Eventually(l.t, "all ranks have made a step after that", func() bool {
			s := l.task("stepping").Status
			steps := l.stepped(id, s.Generation)
			if s.Generation == before.Generation || len(steps) < len(machines) {
				return false
			}
			for _, when := range steps {
				if when.After(last) {
					last = when
				}
			}
			return true
		})
		f.Kills = append(f.Kills, last.Sub(at).Seconds())
	}
	for i := range rounds {
		whole()
		before := phasesOf(l.task("stepping"))
		h := l.w.Host(machines[len(machines)-1-i%2])
		recovered := recoveredOf(l.task("stepping"))
		h.PowerOff()
		harness.Eventually(l.t, "it has passed where it was", func() bool { return recoveredOf(l.task("stepping")) > recovered })
		took := phasesOf(l.task("stepping"))
		for phase := range took {
			took[phase] -= before[phase]
		}
		f.Lost = append(f.Lost, took)
		h.Boot()
		l.agent(h.Name(), "")
		l.until(h.Name(), "ready again", func(n *api.Node) bool { return n.Status.Ready && len(n.Status.Holds) == 0 })
	}
	if err := l.cl.Stop(l.t.Context(), "default", "stepping"); err != nil {
		l.t.Fatal(err)
	}
	l.phase("stepping", api.PhaseStopped)
}

// archive uploads a script as a task's code.
func (l *lab) archive(name string) string {
	l.t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	packed := tar.NewWriter(zipped)
	text := script(l.t, name)
	err := packed.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg})
	if err == nil {
		_, err = packed.Write([]byte(text))
	}
	if err = errors.Join(err, packed.Close(), zipped.Close()); err != nil {
		l.t.Fatal(err)
	}
	got, err := l.cl.PutArchive(l.t.Context(), &out, int64(out.Len()))
	if err != nil {
		l.t.Fatal(err)
	}
	return got.Digest
}

// killRank kills the rank of a host that makes steps in a generation, and says when.
func (l *lab) killRank(id string, h *world.Host, generation int) time.Time {
	l.t.Helper()
	files, _ := filepath.Glob(filepath.Join(h.Disk(), "agent", "engine", "replicas", id+"-worker-*", "output", "events.*"))
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		for line := range strings.Lines(string(raw)) {
			var at float64
			var g, step, inside int
			var ticks uint64
			if n, _ := fmt.Sscan(line, &at, &g, &step, &inside, &ticks); n == 5 && g == generation {
				pid, err := harness.ProcessStarted("FERMI_TASK_ID="+id, inside, ticks)
				if err != nil {
					l.t.Fatal(err)
				}
				at := time.Now()
				if err := unix.Kill(pid, unix.SIGKILL); err != nil {
					l.t.Fatal(err)
				}
				return at
			}
		}
	}
	l.t.Fatalf("%s makes no step in generation %d", h.Name(), generation)
	return time.Time{}
}

func recoveredOf(t *api.TrainingTask) int {
	if in := t.Status.Interruptions; in != nil {
		return in.Recovered
	}
	return 0
}

func phasesOf(t *api.TrainingTask) map[string]float64 {
	out := map[string]float64{}
	if in := t.Status.Interruptions; in != nil {
		for phase, d := range in.Phases {
			out[phase] = d.Std().Seconds()
		}
	}
	return out
}

// stepped is when each rank made its first step of a generation, as it wrote down on its machine.
func (l *lab) stepped(id string, generation int) map[string]time.Time {
	out := map[string]time.Time{}
	for _, h := range l.w.Hosts("") {
		files, _ := filepath.Glob(filepath.Join(h.Disk(), "agent", "engine", "replicas", id+"-worker-*", "output", "events.*"))
		for _, file := range files {
			raw, _ := os.ReadFile(file)
			for line := range strings.Lines(string(raw)) {
				var at float64
				var g, step int
				if n, _ := fmt.Sscan(line, &at, &g, &step); n == 3 && g == generation && strings.HasSuffix(line, "\n") {
					rank := filepath.Base(file)
					if when := time.UnixMicro(int64(at * 1e6)); out[rank].IsZero() || when.Before(out[rank]) {
						out[rank] = when
					}
				}
			}
		}
	}
	return out
}
