package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/client"
	"github.com/fermi-cluster/fermi/internal/cli/clitest"
	"github.com/fermi-cluster/fermi/internal/cli/object"
	"github.com/fermi-cluster/fermi/internal/cli/pack/packtest"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// finish makes a fake that runs every task at once to this end.
func finish(f *clitest.Fake, phase api.Phase, code int) {
	f.Run = func(t *api.TrainingTask) {
		start, end := clitest.Now.Add(-time.Minute), clitest.Now
		t.Status = api.TrainingTaskStatus{Phase: phase, StartedAt: &start, FinishedAt: &end, ExitCode: &code, Zones: []string{"local"}}
		if phase == api.PhaseFailed {
			t.Status.Failure = &api.ReplicaFailure{Role: "worker", Node: "n1", ExitCode: code, Reason: "ExitedNonZero"}
		}
	}
}

func TestTrainRun(t *testing.T) {
	f := clitest.New(t)
	finish(f, api.PhaseCompleted, 0)
	f.Log = []client.LogLine{{Time: clitest.Now, Replica: "worker-0", Stream: "stdout", Text: "step=1 loss=0.5"}}
	dir := t.TempDir()
	packtest.Write(t, dir, map[string]string{"train.py": "print()", ".git/config": "x", "data/a.bin": "x", ".fermiignore": "data/\n"})
	want := result{out: "step=1 loss=0.5\n", err: "Task python-train-py-77777 submitted.\nTask python-train-py-77777: Completed after 1m in local.\n"}
	args := []string{
		"train", "run", "--code", dir, "--gpus", "2", "--gpu-type", "A100", "--cpu", "500m", "--memory", "2Gi", "--env", "A=b=c", "--hp", "lr=0.10",
		"--hp", "name=x", "--hp", "amp=true", "--priority", "7", "--zone", "bj-1", "--restarts", "2", "--timeout", "2h", "--", "python", "train.py", "--flag", "-o",
	}
	check(t, fermi(f, t, "", append(args[:len(args)-2:len(args)-2], "-v")...), result{out: want.out, err: strings.ReplaceAll(want.err, "python-train-py-", "python-train-py-v-")})
	got := fermi(f, t, "", args...)
	if got.code != 0 || got.out != want.out {
		t.Errorf("%+v", got)
	}
	if len(f.Archives) != 1 {
		t.Errorf("the same folder gave %d archives", len(f.Archives))
	}
	task := f.Objects[api.KindTrainingTask][1].(*api.TrainingTask)
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
	for digest, data := range f.Archives {
		if task.Spec.Code.Archive != digest {
			t.Errorf("code %s", task.Spec.Code.Archive)
		}
		if diff := cmp.Diff([]string{".fermiignore", "train.py"}, packtest.Names(t, data)); diff != "" {
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
		f := clitest.New(t)
		finish(f, tt.phase, tt.code)
		got := fermi(f, t, "", "train", "run", "--no-code", "--name", "x1", "--", "false")
		if got.code != tt.want || got.out != "" || !strings.Contains(got.err, "Task x1: "+string(tt.phase)+" after 1m in local.") {
			t.Errorf("%s %d: %+v", tt.phase, tt.code, got)
		}
		if len(f.Archives) != 0 {
			t.Error("--no-code sent code")
		}
	}
}

func TestTrainRunDetachAndDryRun(t *testing.T) {
	f := clitest.New(t)
	got := fermi(f, t, "", "train", "run", "--no-code", "-d", "--name", "x1", "--", "sleep", "9")
	if got.code != 0 || got.out != "x1\n" || !strings.Contains(got.err, "fermi logs -f x1") {
		t.Errorf("%+v", got)
	}
	check(t, fermi(f, t, "", "train", "run", "--dry-run", "--name", "x2", "--", "sleep", "9"), result{out: "task/x2 created (dry run)\n", err: "No preview: It does not lead.\n"})
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
	f.Planned = &api.Preview{Fits: true, StartBasis: "now", Planned: &planned, Alternatives: []api.PlacementOption{cheaper}}
	check(t, fermi(f, t, "", "train", "run", "--dry-run", "--name", "x2", "--expected-time", "2h", "--", "sleep", "9"), result{out: `task/x2 created (dry run)
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
	f.Planned = &api.Preview{Reason: "DevicesBusy", Message: fault.T("All busy.", "全忙。"), StartBasis: "unknown"}
	check(t, fermi(f, t, "", "train", "run", "--dry-run", "--name", "x2", "--", "sleep", "9"), result{out: "task/x2 created (dry run)\nIt would wait: All busy. [DevicesBusy]\n"})
	if len(f.Objects[api.KindTrainingTask]) != 1 || len(f.Archives) != 0 {
		t.Error("a dry run changed something")
	}
	if got := fermi(f, t, "", "train", "run", "--no-code", "--replicas", "99999", "--", "a"); got.code != 2 {
		t.Errorf("%+v", got)
	}
}

// TestWhyLine: while the task waits, stderr says why, once for each change when it is a file.
func TestWhyLine(t *testing.T) {
	f := clitest.New(t)
	f.Follow = make(chan struct{})
	var once sync.Once
	f.Run = func(task *api.TrainingTask) {
		go func() {
			for { // until the reason was asked for twice
				n := strings.Count(strings.Join(f.Called(), "\n"), "/why")
				if n >= 2 || t.Context().Err() != nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
			code := 0
			f.Mu.Lock()
			task.Status.Phase, task.Status.ExitCode = api.PhaseCompleted, &code
			f.Mu.Unlock()
			once.Do(func() { close(f.Follow) })
		}()
	}
	got := fermi(f, t, "", "train", "run", "--no-code", "--name", "x1", "--", "true")
	if got.code != 0 || strings.Count(got.err, "Pending: The queue is paused. · starts in 5m\n") != 1 {
		t.Errorf("%+v", got)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(twoDocs))
	f.Add([]byte("items:\n- kind: Queue\n  metadata: {name: a}\n"))
	f.Add([]byte("--- {kind: Queue}\n...\n---\n\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		objs, err := object.ReadManifests(bytes.NewReader(data), []string{"-"})
		if (err == nil) == (len(objs) == 0) {
			t.Errorf("%d objects, %v", len(objs), err)
		}
	})
}
