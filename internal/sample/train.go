package sample

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
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
	// Shards makes the bits independent of the number of ranks: gradients are of so many fixed parts of
	// a batch, and summed in their order. 0: of one part a rank, as fast as can be.
	Shards int
	// Place is among which other ranks.
	Place Place
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
	case o.Shards < 0 || o.Shards > maxShards || o.Shards > 0 && o.Shards < o.Place.World:
		return fmt.Errorf("shards must be 0, or at least one for each of the %d ranks and at most %d, not %d", o.Place.World, maxShards, o.Shards)
	case o.StepTime < 0 || o.StepTime > time.Hour:
		return fmt.Errorf("step-time must be between 0 and 1h, not %s", o.StepTime)
	}
	return o.Place.Validate()
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
	read("SHARDS", integer(&o.Shards))
	read("LR", func(v string) (err error) { o.Rate, err = strconv.ParseFloat(v, 64); return err })
	read("SEED", func(v string) (err error) { o.Seed, err = strconv.ParseUint(v, 10, 64); return err })
	read("STEP_TIME", func(v string) (err error) { o.StepTime, err = parseSpan(v); return err })
	o.Output = getenv("FERMI_OUTPUT")
	place, err := placeFrom(getenv)
	o.Place = place
	return o, errors.Join(append(errs, err)...)
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

const maxShards = 4096

// examples is the size of the training set.
const examples = 1024

// Train fits the model and prints a line every LogEvery steps. When ctx ends it finishes the step,
// saves, and returns the cause. Of several ranks only the first prints and writes.
func Train(ctx context.Context, o Options, out io.Writer) (Result, error) {
	if err := o.Validate(); err != nil {
		return Result{}, err
	}
	if o.Place.Rank > 0 {
		out, o.Output = io.Discard, ""
	}
	t := newTrainer(o)
	t.last = time.Now()
	kept, err := openSlots(o.Place)
	if err != nil {
		return Result{}, err
	}
	boss, err := greet(ctx, o.Place, kept.held())
	if err != nil {
		return Result{}, err
	}
	defer boss.close()
	around, err := joinRing(ctx, o.Place)
	if err != nil {
		return Result{}, err
	}
	defer around.close()
	at, err := t.resume(kept, boss, around)
	if err != nil {
		return Result{}, err
	}
	metrics, err := openMetrics(o.Output, at.Step)
	if err != nil {
		return Result{}, err
	}
	defer metrics.close()
	fmt.Fprintf(out, "sample: two spirals, %d points, hidden=%d batch=%d lr=%g seed=%d steps=%d\n",
		examples, o.Hidden, o.Batch, o.Rate, o.Seed, o.Steps)
	if at.Step > 0 {
		fmt.Fprintf(out, "sample: goes on after step=%d, generation %d\n", at.Step, o.Place.Generation)
	}
	for stopped := ctx.Err() != nil && o.Place.alone(); at.Step < o.Steps && !stopped; {
		if stopped, err = t.step(around, ctx.Err() != nil); err != nil {
			return at, boss.lostPeer(ctx, o.Place, err)
		}
		at.Step++
		// Shown first: what was saved is never done again, so its line would be missing.
		if err := errors.Join(t.show(&at, out, metrics), t.keep(kept, boss, at, stopped || at.Step == o.Steps)); err != nil {
			return at, err
		}
		wait(ctx, o.StepTime)
	}
	return t.finish(ctx, at, out, metrics)
}

// show prints how good the model is, every so many steps.
func (t *trainer) show(at *Result, out io.Writer, metrics *metricsFile) error {
	if !t.shown(at.Step) {
		return nil
	}
	at.Loss, at.Accuracy = t.model.batch(t.work, t.data, nil)
	fmt.Fprintf(out, "step=%d loss=%.4f acc=%.4f\n", at.Step, at.Loss, at.Accuracy)
	return metrics.add(*at)
}

func (t *trainer) shown(step int) bool { return step%t.o.LogEvery == 0 || step == t.o.Steps }

// finish saves, and says how far it came.
func (t *trainer) finish(ctx context.Context, at Result, out io.Writer, metrics *metricsFile) (Result, error) {
	o := t.o
	at.Loss, at.Accuracy = t.model.batch(t.work, t.data, nil)
	if err := errors.Join(save(o, at, t.model), metrics.close()); err != nil {
		return at, err
	}
	if ctx.Err() != nil && at.Step < o.Steps {
		fmt.Fprintf(out, "stopped at step=%d loss=%.4f acc=%.4f\n", at.Step, at.Loss, at.Accuracy)
		return at, context.Cause(ctx)
	}
	fmt.Fprintf(out, "done step=%d loss=%.4f acc=%.4f\n", at.Step, at.Loss, at.Accuracy)
	return at, nil
}

// resume goes on where the launcher says: with the state of that step, or from the beginning. A rank
// that is new takes the state of one that has it, and keeps it.
func (t *trainer) resume(kept *slots, boss *launcher, around *ring) (at Result, err error) {
	if kept == nil || boss == nil {
		return at, nil
	}
	own, err := kept.restore(boss.restore)
	if boss.restore == 0 {
		return at, err
	}
	data, err := around.share(own, err)
	if err == nil {
		err = t.restore(data)
	}
	if err == nil && own == nil {
		var saved bool
		if saved, err = kept.save(boss.restore, marks{watermark: boss.restore, pinned: boss.mark().pinned}, data); saved && err == nil {
			boss.say("saved", map[string]any{"step": boss.restore, "bytes": len(data), "seconds": 0})
		}
	}
	if err != nil {
		boss.say("held", map[string]any{"steps": kept.held()}) // so that an older one is chosen next
		return at, err
	}
	at.Step = int(boss.restore)
	return at, nil
}

// keep saves the state after a step where that can be done now and is due, as the last one always is, and tells the launcher.
func (t *trainer) keep(kept *slots, boss *launcher, at Result, last bool) error {
	if kept == nil || boss == nil {
		return nil
	}
	begin, step := time.Now(), at.Step
	state, needed := t.state(), boss.mark()
	pauses := boss.pauses(int64(step), needed.watermark) || needed.every > 0 && int64(step)%needed.every != 0 && !last
	if !pauses && kept.room(needed) {
		boss.say("saving", map[string]any{"step": step})
	}
	var saved bool
	if !pauses {
		var err error
		if saved, err = kept.save(int64(step), needed, state); err != nil {
			return err
		}
	}
	numbers := map[string]float64{}
	if saved {
		numbers["save_stall"] = time.Since(begin).Seconds()
	}
	if t.waited > 0 {
		numbers["peer_wait"] = t.waited.Seconds()
	}
	if t.shown(step) && !math.IsNaN(at.Loss) && !math.IsInf(at.Loss, 0) {
		numbers["loss"], numbers["acc"] = at.Loss, at.Accuracy
	}
	progress := map[string]any{"step": step, "t": begin.Sub(t.last).Seconds(), "metrics": numbers}
	t.waited = 0
	boss.say("progress", progress)
	t.last = begin
	if saved {
		boss.say("saved", map[string]any{"step": step, "bytes": len(state), "seconds": time.Since(begin).Seconds()})
	}
	if pauses {
		return nil
	}
	return boss.offer(kept, saved)
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

// openMetrics begins the file anew or, after a step, goes on behind its line.
func openMetrics(dir string, after int) (*metricsFile, error) {
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "metrics.jsonl")
	var keep []byte
	if after > 0 {
		old, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for line := range bytes.Lines(old) {
			var r Result
			if json.Unmarshal(line, &r) != nil || r.Step > after || line[len(line)-1] != '\n' {
				break
			}
			keep = append(keep, line...)
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(keep); err != nil {
		f.Close()
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
