package inspect

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/launch/inside"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/launch/word"
	"github.com/fermi-cluster/fermi/internal/preflight"
	"github.com/fermi-cluster/fermi/internal/recipe"
	sdk "github.com/fermi-cluster/fermi/sdk/python"
)

// How long a trial may take. A fresh interpreter with its first context takes 4 s on an H200; without a daemon
// that keeps the driver loaded, a context alone takes as long again.
const (
	trialImports = 8 * time.Second // until it begins
	trialWorks   = 10 * time.Second
	maxTrialSaid = 64 << 10
)

// trial is a short computation on the devices of a replica, by the interpreter of its ranks and behind their wall.
type trial struct {
	there   <-chan struct{} // closed: code and folders are there
	devices []api.Device    // none: the processors
	imports time.Duration   // until it begins
	works   time.Duration
	start   func(out uintptr) (*process.Set, error)
	log     *slog.Logger
}

// interpreting runs the interpreter of the ranks with these arguments, behind their wall; what it prints goes to out.
type interpreting func(out uintptr, args ...string) (*process.Set, error)

// TrialOf is the trial of a replica; nil where nothing can be computed: no PyTorch, no Python command, or only
// virtual devices. Nobody guesses at an interpreter: what it found would not be the ranks'.
func TrialOf(r engine.Replica, facts *preflight.Facts, there <-chan struct{}, run interpreting, log *slog.Logger) *trial {
	device := recipe.TorchDevice(r.Devices)
	if facts == nil || facts.Versions["torch"] == "" || !recipe.Python(r.Command) || r.Virtual || device == "" {
		return nil
	}
	t := &trial{there: there, devices: r.Devices, imports: trialImports, works: trialWorks, log: log}
	if len(t.devices) == 0 {
		t.works = preflightFor // processors that are slow are no news
	}
	t.start = func(out uintptr) (*process.Set, error) {
		return run(out, "-c", sdk.SelfTest, device, strconv.Itoa(max(len(r.Devices), 1)))
	}
	return t
}

// BeginTrial starts one process that nobody but us hears.
func BeginTrial(r engine.Replica, env []string, out uintptr, start process.Starter) (*process.Set, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	p := &process.Set{N: 1}
	return p, start(p, r, "/", env, [][]string{nil}, null.Fd(), []inside.Pipes{{out, null.Fd()}})
}

// trialWord is a line of the SDK's _selftest.
type trialWord struct {
	None  string `json:"none"`
	Seen  *int64 `json:"seen"`
	Begin *int   `json:"begin"`
	End   *int   `json:"end"`
	Fault string `json:"fault"`
	Text  string `json:"text"`
}

// run is the whole trial; the zero value: nothing was computed. Its process has ended afterwards, or can't be.
func (t *trial) run(ctx context.Context) preflight.Devices {
	if t == nil {
		return preflight.Devices{}
	}
	select {
	case <-t.there:
	case <-ctx.Done():
		return preflight.Devices{}
	case <-time.After(t.imports):
		return preflight.Devices{} // the code is still on its way
	}
	read, write, err := os.Pipe()
	if err != nil {
		return preflight.Devices{}
	}
	var hearing sync.WaitGroup
	defer hearing.Wait()
	defer read.Close()
	p, err := t.start(write.Fd())
	write.Close()
	if err != nil {
		t.log.Warn("nothing was computed before the start", "error", err)
		return preflight.Devices{}
	}
	defer p.Discard()
	words, over := make(chan trialWord), make(chan struct{})
	defer close(over)   // nobody listens any more
	hearing.Go(func() { // ends with the pipe
		defer close(words)
		hearTrial(read, words, over)
	})
	return t.judge(ctx, words)
}

// hearTrial passes words on until the end of what is said, as long as somebody listens; other lines are a library's.
func hearTrial(from io.Reader, words chan<- trialWord, over <-chan struct{}) {
	lines := bufio.NewScanner(io.LimitReader(from, maxTrialSaid))
	for lines.Scan() {
		var w trialWord
		if word.ParseLine(lines.Bytes(), &w) == nil {
			select {
			case words <- w:
			case <-over:
			}
		}
	}
	_, _ = io.Copy(io.Discard, from)
}

// judge listens until all have ended, or the time is over.
func (t *trial) judge(ctx context.Context, words <-chan trialWord) preflight.Devices {
	begun, ended := map[int]bool{}, map[int]bool{}
	out := preflight.Devices{Test: preflight.Computed}
	late, n := time.After(t.imports), max(len(t.devices), 1)
	for len(ended) < n {
		select {
		case w, more := <-words:
			switch {
			case !more:
				return t.unfinished(out, begun, ended, preflight.DeviceFailed, "its process ended")
			case w.Seen != nil:
				return t.blame(out, 0, preflight.DeviceUnseen, max(*w.Seen, 0), "")
			case w.Begin != nil && *w.Begin >= 0 && *w.Begin < n:
				if len(begun) == 0 {
					late = time.After(t.works)
				}
				begun[*w.Begin] = true
			case w.End != nil && *w.End >= 0 && *w.End < n && !ended[*w.End]:
				if ended[*w.End] = true; w.Fault != "" {
					out = t.blame(out, *w.End, w.Fault, 0, w.Text)
				}
			default: // none, or not of ours
				t.log.Info("nothing was computed before the start", "why", w.None)
				return preflight.Devices{}
			}
		case <-late:
			return t.unfinished(out, begun, ended, preflight.DeviceHung, "")
		case <-ctx.Done():
			return preflight.Devices{}
		}
	}
	return out
}

// unfinished blames the devices that have begun and not ended. Where none has, nothing was computed.
func (t *trial) unfinished(out preflight.Devices, begun, ended map[int]bool, kind, text string) preflight.Devices {
	if len(begun) == 0 {
		return preflight.Devices{}
	}
	for i := range max(len(t.devices), 1) {
		if begun[i] && !ended[i] {
			out = t.blame(out, i, kind, 0, text)
		}
	}
	return out
}

// blame notes a fault. Processors are blamed for wrong results alone: whatever else goes wrong there, slowness
// above all, is nothing to tell.
func (t *trial) blame(out preflight.Devices, i int, kind string, count int64, text string) preflight.Devices {
	f := preflight.DeviceFault{Kind: kind, Count: count, Text: text}
	switch {
	case !slices.Contains(preflight.DeviceFaults, kind):
		f.Kind = preflight.DeviceFailed
	case len(t.devices) > 0:
	case kind == preflight.DeviceWrong || kind == preflight.DeviceMemory || kind == preflight.DeviceCopy:
		f.Kind = preflight.DeviceProcessor
	}
	if len(t.devices) == 0 && f.Kind != preflight.DeviceProcessor {
		return preflight.Devices{}
	}
	if len(t.devices) > 0 {
		f.Index = t.devices[i].Index
	}
	t.log.Warn("a test computation failed", "device", f.Index, "fault", f.Kind, "why", text)
	out.Faults = append(out.Faults, f)
	return out
}

// together is what the driver said and what was computed: the most that was done, and everything that was found.
func together(driver, computed preflight.Devices) preflight.Devices {
	if computed.Test == "" {
		return driver
	}
	told := map[int]bool{}
	for _, f := range driver.Faults {
		told[f.Index] = true
	}
	for _, f := range computed.Faults { // of a device that the driver complains about it is no news
		if !told[f.Index] || f.Kind == preflight.DeviceUnseen {
			driver.Faults = append(driver.Faults, f)
		}
	}
	driver.Test = computed.Test
	return driver
}
