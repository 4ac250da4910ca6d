package sample

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestMain lets the test binary be the trainer, for the test with a real SIGTERM.
func TestMain(m *testing.M) {
	if os.Getenv("SAMPLE_TEST_CHILD") == "1" {
		cmd := Command(func(en, _ string) string { return en })
		cmd.SetArgs([]string{"train", "--steps", "1000000", "--step-time", "10ms", "--log-every", "1"})
		err := cmd.Execute()
		var exit *Exit
		if errors.As(err, &exit) {
			os.Exit(exit.Code)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestGradient compares backward with differences of the loss, for every parameter.
func TestGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	points := spirals(16, rng)
	m := NewModel(5, rng)
	work, grad := m.scratch(), m.zeros()
	m.batch(work, points, grad)
	const h = 1e-6
	weights, grads := m.parameters(), grad.parameters()
	for i := range weights {
		for j := range weights[i] {
			old := weights[i][j]
			weights[i][j] = old + h
			up, _ := m.batch(work, points, nil)
			weights[i][j] = old - h
			down, _ := m.batch(work, points, nil)
			weights[i][j] = old
			numeric := (up - down) / (2 * h)
			if diff := math.Abs(numeric - grads[i][j]); diff > 1e-7+1e-5*math.Abs(numeric) {
				t.Errorf("parameter %d/%d: backward says %g, differences say %g", i, j, grads[i][j], numeric)
			}
		}
	}
}

func TestLossFalls(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3} {
		o := DefaultOptions()
		o.Seed, o.Steps = seed, 1
		before, err := Train(t.Context(), o, &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		o.Steps = 200
		after, err := Train(t.Context(), o, &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		if after.Loss > before.Loss/2 || after.Accuracy < 0.9 {
			t.Errorf("seed %d: loss %.4f → %.4f, accuracy %.3f", seed, before.Loss, after.Loss, after.Accuracy)
		}
	}
}

func TestSameSeedSameBits(t *testing.T) {
	run := func(seed uint64) (string, string, string) {
		o := DefaultOptions()
		o.Seed, o.Steps, o.Output = seed, 50, t.TempDir()
		var out bytes.Buffer
		if _, err := Train(t.Context(), o, &out); err != nil {
			t.Fatal(err)
		}
		model, err := os.ReadFile(filepath.Join(o.Output, "model.json"))
		if err != nil {
			t.Fatal(err)
		}
		metrics, err := os.ReadFile(filepath.Join(o.Output, "metrics.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		return out.String(), string(model), string(metrics)
	}
	out1, model1, metrics1 := run(1)
	out2, model2, metrics2 := run(1)
	if out1 != out2 || model1 != model2 || metrics1 != metrics2 {
		t.Error("the same seed gave other results")
	}
	if _, model3, _ := run(2); model3 == model1 {
		t.Error("another seed gave the same model")
	}
	if !regexp.MustCompile(`(?m)^step=10 loss=\d\.\d{4} acc=\d\.\d{4}$`).MatchString(out1) {
		t.Errorf("no parsable step line in:\n%s", out1)
	}
	var m saved
	if err := json.Unmarshal([]byte(model1), &m); err != nil || m.Step != 50 || len(m.Layers) != 3 {
		t.Errorf("model.json: %v, step %d, %d layers", err, m.Step, len(m.Layers))
	}
	if n := strings.Count(metrics1, "\n"); n != 5 {
		t.Errorf("metrics.jsonl has %d lines, want 5", n)
	}
}

func TestFromEnvironment(t *testing.T) {
	tests := []struct {
		name string
		env  map[string]string
		want func(*Options)
		bad  bool
	}{
		{"none", nil, func(*Options) {}, false},
		{"all", map[string]string{
			"FERMI_HP_STEPS": "7", "FERMI_HP_BATCH": "8", "FERMI_HP_LR": "0.1", "FERMI_HP_HIDDEN": "9",
			"FERMI_HP_SEED": "3", "FERMI_HP_LOG_EVERY": "2", "FERMI_HP_STEP_TIME": "0.25", "FERMI_OUTPUT": "/o",
		}, func(o *Options) {
			*o = Options{7, 8, 0.1, 9, 3, 2, 250 * time.Millisecond, "/o", 0, Place{World: 1}}
		}, false},
		{"span", map[string]string{"FERMI_HP_STEP_TIME": "20ms"}, func(o *Options) { o.StepTime = 20 * time.Millisecond }, false},
		{"bad", map[string]string{"FERMI_HP_STEPS": "many"}, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DefaultOptions().FromEnvironment(func(k string) string { return tt.env[k] })
			if (err != nil) != tt.bad {
				t.Fatalf("error %v, want bad %v", err, tt.bad)
			}
			if tt.bad {
				return
			}
			want := DefaultOptions()
			want.Place.World = 1
			tt.want(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFlagsWinOverEnvironment(t *testing.T) {
	t.Setenv("FERMI_HP_STEPS", "30")
	t.Setenv("FERMI_HP_LOG_EVERY", "5")
	t.Setenv("FERMI_OUTPUT", "")
	cmd := Command(func(en, _ string) string { return en })
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"train", "--steps", "10"})
	if err := cmd.ExecuteContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "step=5 ") || !strings.Contains(out.String(), "done step=10 ") {
		t.Errorf("unexpected output:\n%s", out.String())
	}
}

func TestValidate(t *testing.T) {
	bad := []func(*Options){
		func(o *Options) { o.Steps = 0 }, func(o *Options) { o.Batch = 0 }, func(o *Options) { o.Rate = math.NaN() },
		func(o *Options) { o.Rate = -1 }, func(o *Options) { o.Hidden = 1 << 20 }, func(o *Options) { o.LogEvery = 0 },
		func(o *Options) { o.StepTime = -1 },
	}
	for i, change := range bad {
		o := DefaultOptions()
		change(&o)
		if o.Validate() == nil {
			t.Errorf("case %d was accepted: %+v", i, o)
		}
	}
}

// TestTerminate sends a real SIGTERM to a real process: it saves what it has and ends with 143.
func TestTerminate(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SAMPLE_TEST_CHILD=1", "FERMI_OUTPUT="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for seen := ""; !strings.Contains(seen, "step=2 "); {
		n, err := out.Read(buf)
		if err != nil {
			t.Fatalf("after %q: %v", seen, err)
		}
		seen += string(buf[:n])
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
	if _, err := os.Stat(filepath.Join(dir, "model.json")); err != nil {
		t.Error(err)
	}
}
