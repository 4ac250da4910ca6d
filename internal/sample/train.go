package sample

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Options are the knobs of the sample trainer.
type Options struct {
	Steps    int
	Batch    int
	Rate     float64
	Hidden   int
	Seed     uint64
	LogEvery int
	// StepTime is waited after each step, to look like a longer training.
	StepTime time.Duration
	// Output is the folder for model.json and metrics.jsonl; "" writes nothing.
	Output string
}

// DefaultOptions fit two spirals in well under a second.
func DefaultOptions() Options {
	return Options{Steps: 200, Batch: 64, Rate: 0.05, Hidden: 32, Seed: 1, LogEvery: 10}
}

// Validate says the first thing that is wrong.
func (o Options) Validate() error {
	switch {
	case o.Steps < 1 || o.Steps > 1_000_000_000:
		return fmt.Errorf("steps must be between 1 and 1000000000, not %d", o.Steps)
	case o.Batch < 1 || o.Batch > 65536:
		return fmt.Errorf("batch must be between 1 and 65536, not %d", o.Batch)
	case !(o.Rate > 0) || math.IsInf(o.Rate, 0) || o.Rate > 10:
		return fmt.Errorf("lr must be above 0 and at most 10, not %v", o.Rate)
	case o.Hidden < 1 || o.Hidden > 4096:
		return fmt.Errorf("hidden must be between 1 and 4096, not %d", o.Hidden)
	case o.LogEvery < 1:
		return fmt.Errorf("log-every must be at least 1, not %d", o.LogEvery)
	case o.StepTime < 0 || o.StepTime > time.Hour:
		return fmt.Errorf("step-time must be between 0 and 1h, not %s", o.StepTime)
	}
	return nil
}

// FromEnvironment takes hyper-parameters as Fermi hands them to any process: FERMI_HP_STEPS and so
// on, and the output folder FERMI_OUTPUT.
func (o Options) FromEnvironment(getenv func(string) string) (Options, error) {
	var errs []error
	read := func(name string, parse func(string) error) {
		if v := getenv("FERMI_HP_" + name); v != "" {
			if err := parse(v); err != nil {
				errs = append(errs, fmt.Errorf("FERMI_HP_%s: %q is not understood", name, v))
			}
		}
	}
	integer := func(dst *int) func(string) error {
		return func(v string) (err error) { *dst, err = strconv.Atoi(v); return err }
	}
	read("STEPS", integer(&o.Steps))
	read("BATCH", integer(&o.Batch))
	read("HIDDEN", integer(&o.Hidden))
	read("LOG_EVERY", integer(&o.LogEvery))
	read("LR", func(v string) (err error) { o.Rate, err = strconv.ParseFloat(v, 64); return err })
	read("SEED", func(v string) (err error) { o.Seed, err = strconv.ParseUint(v, 10, 64); return err })
	read("STEP_TIME", func(v string) (err error) { o.StepTime, err = parseSpan(v); return err })
	o.Output = getenv("FERMI_OUTPUT")
	return o, errors.Join(errs...)
}

// parseSpan takes "250ms" and plain seconds.
func parseSpan(v string) (time.Duration, error) {
	if s, err := strconv.ParseFloat(v, 64); err == nil && s >= 0 && s <= 3600 {
		return time.Duration(s * float64(time.Second)), nil
	}
	return time.ParseDuration(v)
}

// Result is where the training stood at its end.
type Result struct {
	Step     int     `json:"step"`
	Loss     float64 `json:"loss"`
	Accuracy float64 `json:"acc"`
}

// saved is model.json.
type saved struct {
	Format string `json:"format"`
	Seed   uint64 `json:"seed"`
	Result
	*Model
}

// examples is the size of the training set.
const examples = 1024

// Train fits the model and prints a line every LogEvery steps. When ctx ends it finishes the step,
// saves, and returns the cause.
func Train(ctx context.Context, o Options, out io.Writer) (Result, error) {
	if err := o.Validate(); err != nil {
		return Result{}, err
	}
	// One stream for the data, one for weights and batches: changing one leaves the other alone.
	data := spirals(examples, rand.New(rand.NewPCG(o.Seed, 1)))
	rng := rand.New(rand.NewPCG(o.Seed, 2))
	model := NewModel(o.Hidden, rng)
	grad, opt, work := model.zeros(), newAdam(model, o.Rate), model.scratch()
	metrics, err := openMetrics(o.Output)
	if err != nil {
		return Result{}, err
	}
	defer metrics.close()
	fmt.Fprintf(out, "sample: two spirals, %d points, hidden=%d batch=%d lr=%g seed=%d steps=%d\n",
		examples, o.Hidden, o.Batch, o.Rate, o.Seed, o.Steps)
	batch := make([]Point, o.Batch)
	var at Result
	for step := 1; step <= o.Steps && ctx.Err() == nil; step++ {
		for i := range batch {
			batch[i] = data[rng.IntN(len(data))]
		}
		grad.clear()
		model.batch(work, batch, grad)
		opt.apply(model, grad)
		at.Step = step
		if step%o.LogEvery == 0 || step == o.Steps {
			at.Loss, at.Accuracy = model.batch(work, data, nil)
			fmt.Fprintf(out, "step=%d loss=%.4f acc=%.4f\n", step, at.Loss, at.Accuracy)
			if err := metrics.add(at); err != nil {
				return at, err
			}
		}
		wait(ctx, o.StepTime)
	}
	at.Loss, at.Accuracy = model.batch(work, data, nil)
	if err := errors.Join(save(o, at, model), metrics.close()); err != nil {
		return at, err
	}
	if ctx.Err() != nil && at.Step < o.Steps {
		fmt.Fprintf(out, "stopped at step=%d loss=%.4f acc=%.4f\n", at.Step, at.Loss, at.Accuracy)
		return at, context.Cause(ctx)
	}
	fmt.Fprintf(out, "done step=%d loss=%.4f acc=%.4f\n", at.Step, at.Loss, at.Accuracy)
	return at, nil
}

func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// metricsFile is metrics.jsonl; nil when there is no output folder.
type metricsFile struct{ f *os.File }

func openMetrics(dir string) (*metricsFile, error) {
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(dir, "metrics.jsonl"))
	if err != nil {
		return nil, err
	}
	return &metricsFile{f}, nil
}

func (m *metricsFile) add(r Result) error {
	if m == nil {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = m.f.Write(append(line, '\n'))
	return err
}

func (m *metricsFile) close() error {
	if m == nil || m.f == nil {
		return nil
	}
	f := m.f
	m.f = nil
	return f.Close()
}

// save writes model.json whole or not at all.
func save(o Options, at Result, m *Model) error {
	if o.Output == "" {
		return nil
	}
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(saved{"fermi-sample/v1", o.Seed, at, m}); err != nil {
		return fmt.Errorf("the model has no finite weights: %w", err)
	}
	path := filepath.Join(o.Output, "model.json")
	f, err := os.CreateTemp(o.Output, ".model-*")
	if err != nil {
		return err
	}
	_, err = f.Write(body.Bytes())
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
