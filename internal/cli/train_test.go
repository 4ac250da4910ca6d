package cli

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/word"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// finish makes a fake that runs every task at once to this end.
func finish(f *fake, phase api.Phase, code int) {
	f.run = func(t *api.TrainingTask) {
		start, end := now.Add(-time.Minute), now
		t.Status = api.TrainingTaskStatus{Phase: phase, StartedAt: &start, FinishedAt: &end, ExitCode: &code, Zones: []string{"local"}}
		if phase == api.PhaseFailed {
			t.Status.Failure = &api.ReplicaFailure{Role: "worker", Node: "n1", ExitCode: code, Reason: "ExitedNonZero"}
		}
	}
}

func TestTrainRun(t *testing.T) {
	f := newFake(t)
	finish(f, api.PhaseCompleted, 0)
	f.log = []client.LogLine{{Time: now, Replica: "worker-0", Stream: "stdout", Text: "step=1 loss=0.5"}}
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"train.py": "print()", ".git/config": "x", "data/a.bin": "x", ".fermiignore": "data/\n"})
	want := result{out: "step=1 loss=0.5\n", err: "Task python-train-py-77777 submitted.\nTask python-train-py-77777: Completed after 1m in local.\n"}
	args := []string{
		"train", "run", "--code", dir, "--gpus", "2", "--gpu-type", "A100", "--cpu", "500m", "--memory", "2Gi", "--env", "A=b=c", "--hp", "lr=0.10",
		"--hp", "name=x", "--hp", "amp=true", "--priority", "7", "--zone", "bj-1", "--restarts", "2", "--timeout", "2h", "--", "python", "train.py", "--flag", "-o",
	}
	check(t, f.fermi(t, "", append(args[:len(args)-2:len(args)-2], "-v")...), result{out: want.out, err: strings.ReplaceAll(want.err, "python-train-py-", "python-train-py-v-")})
	got := f.fermi(t, "", args...)
	if got.code != 0 || got.out != want.out {
		t.Errorf("%+v", got)
	}
	if len(f.archives) != 1 {
		t.Errorf("the same folder gave %d archives", len(f.archives))
	}
	task := f.objects[api.KindTrainingTask][1].(*api.TrainingTask)
	role := task.Spec.Roles[0]
	spec, _ := json.Marshal(task.Spec.HyperParameters)
	if diff := cmp.Diff([]string{"python", "train.py", "--flag", "-o"}, append(role.Command, role.Args...)); diff != "" {
		t.Error(diff)
	}
	if string(spec) != `{"amp":true,"lr":0.1,"name":"x"}` && string(spec) != `{"amp":true,"lr":0.10,"name":"x"}` {
		t.Errorf("hyper-parameters: %s", spec)
	}
	if role.Resources.CPU != 500 || role.Resources.Memory != 2<<30 || role.Resources.Accelerators != (api.Accelerators{Type: "A100", Count: 2}) ||
		*task.Spec.Priority != 7 || task.Spec.Restart.MaxRestarts != 2 || task.Spec.Timeouts.Run.Std() != 2*time.Hour || task.Spec.Zones.Allow[0] != "bj-1" {
		t.Errorf("%+v", task.Spec)
	}
	for digest, data := range f.archives {
		if task.Spec.Code.Archive != digest {
			t.Errorf("code %s", task.Spec.Code.Archive)
		}
		if diff := cmp.Diff([]string{".fermiignore", "train.py"}, namesIn(t, data)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestTrainRunEnds(t *testing.T) {
	for _, tt := range []struct {
		phase api.Phase
		code  int
		want  int
	}{{api.PhaseCompleted, 0, 0}, {api.PhaseFailed, 3, 3}, {api.PhaseStopped, 143, 143}, {api.PhaseFailed, 0, 1}} {
		f := newFake(t)
		finish(f, tt.phase, tt.code)
		got := f.fermi(t, "", "train", "run", "--no-code", "--name", "x1", "--", "false")
		if got.code != tt.want || got.out != "" || !strings.Contains(got.err, "Task x1: "+string(tt.phase)+" after 1m in local.") {
			t.Errorf("%s %d: %+v", tt.phase, tt.code, got)
		}
		if len(f.archives) != 0 {
			t.Error("--no-code sent code")
		}
	}
}

func TestTrainRunDetachAndDryRun(t *testing.T) {
	f := newFake(t)
	got := f.fermi(t, "", "train", "run", "--no-code", "-d", "--name", "x1", "--", "sleep", "9")
	if got.code != 0 || got.out != "x1\n" || !strings.Contains(got.err, "fermi logs -f x1") {
		t.Errorf("%+v", got)
	}
	check(t, f.fermi(t, "", "train", "run", "--dry-run", "--name", "x2", "--", "sleep", "9"), result{out: "task/x2 created (dry run)\n", err: "No preview: It does not lead.\n"})
	grams, total := 4500.0, 9000.0
	option := func(name, zone string, price float64) api.PlacementOption {
		return api.PlacementOption{
			Name: name, Zones: []api.ZonePart{{Zone: zone}}, NodeCount: 2, Efficiency: api.EfficiencyNote{Percent: 90}, RackLoss: api.RackLoss{Percent: 100},
			Prices: []api.PriceParts{{Currency: "CNY", Devices: price - 25.6, CPU: 25.6, Total: price}}, Energy: api.EnergyNote{GramsPerHour: &grams},
		}
	}
	planned, cheaper := option("planned", "beijing-1", 161.6), option("cheaper", "shanghai-1", 100)
	planned.Latency = api.LatencyNote{P50Ms: 1.3, From: "a", To: "b", Source: "declared", Action: fault.T("fine", "好")}
	planned.Expected = &api.ExpectedTotals{Prices: []api.PriceTotal{{Currency: "CNY", Total: 323.2}}, KWh: 16, Grams: &total}
	planned.Prices[0].CrossingGB = 0.3
	cheaper.Efficiency = api.EfficiencyNote{Percent: 90, Basis: "measured", Runs: 3}
	cheaper.Text, cheaper.Change = fault.T("less", "少"), fault.T("zones", "区")
	f.planned = &api.Preview{Fits: true, StartBasis: "now", Planned: &planned, Alternatives: []api.PlacementOption{cheaper}}
	check(t, f.fermi(t, "", "train", "run", "--dry-run", "--name", "x2", "--expected-time", "2h", "--", "sleep", "9"), result{out: `task/x2 created (dry run)
It would start now.
OPTION   ZONES       NODES         LATENCY  EFFICIENCY  PRICE/H    CO₂/H  RACK LOSS
planned  beijing-1       2  1.3ms declared        ≈90%  ¥161.60  ≈4.5 kg       100%
cheaper  shanghai-1      2               -         90%  ¥100.00  ≈4.5 kg       100%
devices ¥136.00 + CPU ¥25.60 + memory ¥0.00 = ¥161.60 an hour; traffic between zones apart: ¥0.30 a GB, how much is not measured
efficiency: estimated
the whole run: ¥323.20, ≈16.0 kWh, ≈9.0 kg CO₂
a – b: fine
cheaper: zones; less
`})
	f.planned = &api.Preview{Reason: "DevicesBusy", Message: fault.T("All busy.", "全忙。"), StartBasis: "unknown"}
	check(t, f.fermi(t, "", "train", "run", "--dry-run", "--name", "x2", "--", "sleep", "9"), result{out: "task/x2 created (dry run)\nIt would wait: All busy. [DevicesBusy]\n"})
	if len(f.objects[api.KindTrainingTask]) != 1 || len(f.archives) != 0 {
		t.Error("a dry run changed something")
	}
	if got := f.fermi(t, "", "train", "run", "--no-code", "--replicas", "99999", "--", "a"); got.code != 2 {
		t.Errorf("%+v", got)
	}
}

// lockedBuffer may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
		time.Sleep(time.Millisecond) // between looks at a condition
	}
}

// TestCtrlC drives the follower with given signals and typed lines.
func TestCtrlC(t *testing.T) {
	for _, tt := range []struct {
		name    string
		ask     bool
		signals int
		typed   []string
		stopped bool
		code    int
	}{
		{"no terminal: detach", false, 1, nil, false, 130},
		{"stop", true, 1, []string{"s"}, true, 143},
		{"detach", true, 1, []string{"detach"}, false, 130},
		{"nonsense, then detach", true, 1, []string{"what?", "d"}, false, 130},
		{"second Ctrl-C", true, 2, nil, false, 130},
		{"continue, then stop", true, 1, []string{"c", "\x03", "s"}, true, 143},
		{"input closed", true, 1, []string{"\x04"}, false, 130},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			task := someTask("gpt-1", "GPT", api.PhaseRunning)
			f.add(task)
			f.follow = make(chan struct{})
			stderr := &lockedBuffer{}
			in, typed := io.Pipe()
			signals := make(chan os.Signal, 2)
			c, err := client.New(client.Config{Server: f.url, Token: "good"})
			if err != nil {
				t.Fatal(err)
			}
			defer c.CloseIdle()
			s := &session{clock: fixedClock{}, flags: &flags{}, client: c, lang: "en", in: in, out: io.Discard, err: stderr}
			fo := &follower{s: s, task: task, out: newLogPrinter(s.out, false, false), ask: tt.ask, signals: signals}
			done := make(chan error, 1)
			go func() { done <- fo.run(t.Context()) }()
			go func() { // the task ends when it is stopped
				select {
				case <-f.stopped:
				case <-t.Context().Done():
					return
				}
				code := 143
				f.mu.Lock()
				task.Status.Phase, task.Status.ExitCode = api.PhaseStopped, &code
				f.mu.Unlock()
				close(f.follow)
			}()
			prompts := func() int { return strings.Count(stderr.String(), "[c]ontinue") }
			for range tt.signals {
				signals <- os.Interrupt
			}
			asked := 1
			for _, line := range tt.typed {
				switch line {
				case "\x03":
					func() { // held while a question waits: the one before is answered now
						fo.mu.Lock()
						defer fo.mu.Unlock()
					}()
					signals <- os.Interrupt
					continue
				case "\x04":
					typed.Close()
					continue
				}
				eventually(t, "the question", func() bool { return prompts() >= asked })
				asked++
				if _, err := io.WriteString(typed, line+"\n"); err != nil {
					t.Fatal(err)
				}
			}
			if code := report(io.Discard, <-done, "en"); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			typed.Close()
			f.mu.Lock()
			defer f.mu.Unlock()
			if task.Spec.Stop != tt.stopped {
				t.Errorf("stopped: %v", task.Spec.Stop)
			}
			if text := stderr.String(); tt.code == 130 && !strings.Contains(text, "fermi train stop gpt-1") {
				t.Errorf("no way back in %q", text)
			}
		})
	}
}

// TestWhyLine: while the task waits, stderr says why, once for each change when it is a file.
func TestWhyLine(t *testing.T) {
	f := newFake(t)
	f.follow = make(chan struct{})
	var once sync.Once
	f.run = func(task *api.TrainingTask) {
		go func() {
			for { // until the reason was asked for twice
				n := strings.Count(strings.Join(f.called(), "\n"), "/why")
				if n >= 2 || t.Context().Err() != nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
			code := 0
			f.mu.Lock()
			task.Status.Phase, task.Status.ExitCode = api.PhaseCompleted, &code
			f.mu.Unlock()
			once.Do(func() { close(f.follow) })
		}()
	}
	got := f.fermi(t, "", "train", "run", "--no-code", "--name", "x1", "--", "true")
	if got.code != 0 || strings.Count(got.err, "Pending: The queue is paused. · starts in 5m\n") != 1 {
		t.Errorf("%+v", got)
	}
}

func namesIn(t *testing.T, archive []byte) []string {
	t.Helper()
	z, err := zstd.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || !h.ModTime.Equal(time.Unix(0, 0)) {
			t.Errorf("%s carries who and when: %+v", h.Name, h)
		}
		names = append(names, h.Name)
	}
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(twoDocs))
	f.Add([]byte("items:\n- kind: Queue\n  metadata: {name: a}\n"))
	f.Add([]byte("--- {kind: Queue}\n...\n---\n\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		objs, err := readManifests(bytes.NewReader(data), []string{"-"})
		if (err == nil) == (len(objs) == 0) {
			t.Errorf("%d objects, %v", len(objs), err)
		}
	})
}

func TestTitle(t *testing.T) {
	for want, argv := range map[string][]string{
		"python train.py": {"/usr/bin/python", "train.py"}, "sh -c a b": {"sh", "-c", "a\n\tb"}, "task": {"\x01"},
		"x " + strings.Repeat("训", 61) + "…": {"x", strings.Repeat("训", 100)},
	} {
		if got := word.Title(argv); got != want {
			t.Errorf("title(%q) = %q, want %q", argv, got, want)
		}
	}
}
