package sim

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
)

const begin = "2026-01-01T00:00:00Z"

func config(trace Trace, nodes int) Config {
	at, _ := time.Parse(time.RFC3339, begin)
	return Config{
		Trace: trace, Nodes: Nodes("z", 1, nodes, 8, "A100"), Begin: at, Checkpoint: 10 * time.Minute, Restart: time.Minute,
		Zones: []*api.Zone{{Meta: api.Meta{Name: "z"}, Spec: api.ZoneSpec{Price: api.Price{Currency: api.DefaultCurrency}}}},
	}
}

func mustRun(t *testing.T, cfg Config) *Report {
	t.Helper()
	r, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func jobs(list ...[3]int) Trace { // devices, submit, minutes
	var out []Job
	for _, j := range list {
		out = append(out, Job{
			Task: newTask(0, "j", "u", "default", wholeDevices(j[0])), At: time.Duration(j[1]) * time.Minute, Length: time.Duration(j[2]) * time.Minute,
		})
	}
	return Trace{Name: "test", Jobs: arrange(out)}
}

// TestByHand: one node of eight; the numbers can be checked in the head.
func TestByHand(t *testing.T) {
	r := mustRun(t, config(jobs([3]int{8, 0, 60}, [3]int{4, 10, 30}, [3]int{4, 10, 60}), 1))
	if r.Ended != 3 || r.Makespan != 120*time.Minute || r.Wait.Max != 50*time.Minute {
		t.Errorf("%+v", r)
	}
	// 8×1 h + 4×0.5 h + 4×1 h of 8 devices over 2 h
	if want := 14.0 / 16; r.Utilisation != want {
		t.Errorf("utilisation %v, want %v", r.Utilisation, want)
	}
	// devices 8.5 and four cores each at 0.2 for 14 device-hours
	if want := 14 * (8.5 + 4*0.2); r.Cost < want-1e-6 || r.Cost > want+1e-6 {
		t.Errorf("cost %v, want %v", r.Cost, want)
	}
}

func TestSameBytes(t *testing.T) {
	cfg := config(jobs([3]int{8, 0, 600}, [3]int{4, 10, 3000}, [3]int{16, 10, 6000}, [3]int{8, 20, 9000}), 3)
	cfg.Faults = DefaultFaults()
	cfg.Faults.NodeDay = 0.5
	cfg.Seed = 7
	a, b := mustRun(t, cfg), mustRun(t, cfg)
	if d := cmp.Diff(a, b); d != "" {
		t.Error(d)
	}
	if a.Faults == 0 || a.Stops == 0 || a.Lost == 0 {
		t.Errorf("nothing broke: %+v", a)
	}
	cfg.Seed = 8
	if c := mustRun(t, cfg); cmp.Equal(a.Lives, c.Lives) {
		t.Error("another seed gave the same life")
	}
}

// TestNothingIsLost: every job ends once, waits are never negative, a job's end is its waits, its
// length, its lost work and its restarts after its arrival.
func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(rt, "jobs")
		var list [][3]int
		for range n {
			list = append(list, [3]int{
				rapid.SampledFrom([]int{1, 2, 4, 8, 16, 24}).Draw(rt, "devices"), rapid.IntRange(0, 500).Draw(rt, "at"), rapid.IntRange(1, 500).Draw(rt, "length"),
			})
		}
		cfg := config(jobs(list...), 3)
		cfg.Seed = rapid.Uint64().Draw(rt, "seed")
		if rapid.Bool().Draw(rt, "faults") {
			cfg.Faults = DefaultFaults()
			cfg.Faults.NodeDay, cfg.Faults.RepairMedian, cfg.Faults.RepairSigma = 5, time.Hour, 0.5
		}
		w := newWorld(cfg)
		for w.goesOn() {
			w.step()
		}
		for _, l := range w.jobs {
			want := l.job.At + l.waiting + l.job.Length + l.lost + time.Duration(l.stops)*cfg.Restart
			// A restart that is itself cut short costs less than a whole one.
			if l.ended == never || l.waiting < 0 || l.ended > want || l.ended < want-time.Duration(l.stops)*cfg.Restart {
				rt.Fatalf("%s ended %v, want %v: %+v", l.job.Task.Meta.ID, l.ended, want, l)
			}
		}
		if w.stat.running != 0 || w.stat.waiting != 0 {
			rt.Fatalf("left over: %+v", w.stat)
		}
	})
}

// TestPatienceBeginsAnew: a planner that was woken in vain while nodes were being repaired is still woken after the last repair.
func TestPatienceBeginsAnew(t *testing.T) {
	list := make([][3]int, 0, 40)
	for i := range 40 {
		list = append(list, [3]int{[]int{1, 2, 4, 8, 16, 24}[i%6], 13 * i, 1 + 37*i%500})
	}
	cfg := config(jobs(list...), 3)
	cfg.Seed, cfg.Faults = 237, DefaultFaults()
	cfg.Faults.NodeDay, cfg.Faults.RepairMedian, cfg.Faults.RepairSigma = 5, time.Hour, 0.5
	if r := mustRun(t, cfg); r.Ended != len(list) {
		t.Errorf("%d of %d ended", r.Ended, len(list))
	}
}

func TestNeverFits(t *testing.T) {
	r := mustRun(t, config(jobs([3]int{8, 0, 60}, [3]int{80, 0, 60}), 1))
	if r.Ended != 1 || r.Never != 1 {
		t.Errorf("%+v", r)
	}
	cfg := config(jobs([3]int{8, 0, 60}, [3]int{80, 0, 60}), 1)
	cfg.Faults = DefaultFaults() // faults go on for ever, and let nobody start
	if r := mustRun(t, cfg); r.Ended != 1 || r.Never != 1 {
		t.Errorf("with faults: %+v", r)
	}
}

func TestReadChronus(t *testing.T) {
	const head = "job_id,user,num_gpu,submit_time,model_name,duration\n"
	tr, err := ReadChronus(strings.NewReader(head+"0,a,4,20,m,30\n1,b,0,1,m,1\n2,b,16,10,m,5\n"), true)
	if err != nil || len(tr.Jobs) != 2 || tr.Jobs[0].Task.Spec.Queue != "b" || tr.Jobs[0].Devices() != 16000 || tr.Jobs[1].Length != 30*time.Minute {
		t.Fatalf("%+v %v", tr, err)
	}
	for _, bad := range []string{"", "x,y\n", head + "0,a,-1,2,m,3\n", head + "0,a,1,2\n", head + "0,a,1,2,m,1e9\n", head + "0,a,999999999999999999999,2,m,1\n", head + "\"0,a\n"} {
		if _, err := ReadChronus(strings.NewReader(bad), false); err == nil {
			t.Errorf("taken: %q", bad)
		}
	}
}

func FuzzReadChronus(f *testing.F) {
	f.Add("job_id,user,num_gpu,submit_time,model_name,duration\n0,a,4,20,m,30\n")
	f.Fuzz(func(t *testing.T, text string) {
		tr, err := ReadChronus(strings.NewReader(text), false)
		if err == nil {
			for _, j := range tr.Jobs {
				if j.At < 0 || j.Length < 0 || j.Devices() <= 0 {
					t.Fatalf("%+v", j)
				}
			}
		}
	})
}

func TestReportsAreWritten(t *testing.T) {
	r := mustRun(t, config(jobs([3]int{8, 0, 60}, [3]int{4, 10, 30}, [3]int{16, 10, 60}), 2))
	r.Trace = `<script>alert(1)</script>`
	var table, page bytes.Buffer
	if heads, rows := Table("zh", Variant{"now", r}); len(heads) != 2 || !slices.ContainsFunc(rows, func(row []string) bool { return row[0] == "利用率" && len(row) == 2 }) {
		t.Error(heads, rows)
	}
	if err := WriteCSV(&table, Variant{"now", r}); err != nil || strings.Count(table.String(), "\n") != 4 {
		t.Error(err, table.String())
	}
	if err := WriteHTML(&page, "en", true, Variant{"now", r}, Variant{"<b>more</b>", r}); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "<b>", "src=", "href=", "NaN", "Inf"} {
		if strings.Contains(page.String(), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if strings.Count(page.String(), "<svg") != 6 {
		t.Error("plots are missing")
	}
	if path := os.Getenv("FERMI_SIM_PAGE"); path != "" {
		if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
