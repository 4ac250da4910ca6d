package activity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/fermi-cluster/fermi/api/v1/activity"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/link"
)

const (
	// lookEvery is how often it is looked, so that what was active between two questions is known.
	lookEvery = 15 * time.Second
	maxNames  = 4 // programs that are named
)

// Config is where it looks. What is nil is not there.
type Config struct {
	// Typed is when somebody typed last, and how many are attached to terminals.
	Typed func() (last time.Time, attached int)
	// Foreground are the names of programs that people wait for in terminals and over SSH.
	Foreground func() []string
	// Moved is when bytes went through ports last, and how many connections there are.
	Moved func() (last time.Time, open int)
	// Notebook is the replica's; nil: it has none.
	Notebook *Notebook
	Clock    clock.Clock
}

// Watch is what was seen since the start. Safe for concurrent use.
type Watch struct {
	cfg   Config
	since time.Time

	mu      sync.Mutex
	signals map[activity.Name]activity.Signal
	cpu     time.Duration // of the last usage
	cpuAt   time.Time
}

// New begins to look now.
func New(cfg Config) *Watch {
	return &Watch{cfg: cfg, since: cfg.Clock.Now(), signals: map[activity.Name]activity.Signal{}}
}

// Run looks again and again until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.cfg.Clock.After(lookEvery):
			w.look(ctx)
		}
	}
}

// Table looks now.
func (w *Watch) Table(ctx context.Context) activity.Table {
	w.look(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	t := activity.Table{At: w.cfg.Clock.Now().UTC(), Since: w.since.UTC()}
	for _, n := range activity.All {
		s, ok := w.signals[n]
		if !ok {
			continue
		}
		if s.Last != nil {
			last := s.Last.UTC()
			if last.After(t.At) { // by a clock that was set
				last = t.At
			}
			s.Last = &last
		}
		t.Signals = append(t.Signals, s)
	}
	return t
}

func (w *Watch) look(ctx context.Context) {
	now := w.cfg.Clock.Now()
	typed, attached := w.cfg.Typed()
	moved, open := w.cfg.Moved()
	names := w.cfg.Foreground()
	var kernels activity.Signal
	if w.cfg.Notebook != nil {
		kernels = w.cfg.Notebook.look(ctx, now)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(activity.Terminal, false, typed, now, fault.T("%d attached", "%d 个连接", attached).Pack())
	w.note(activity.Ports, false, moved, now, fault.T("%d open", "%d 个打开", open).Pack())
	w.note(activity.Process, len(names) > 0, time.Time{}, now, namesOf(names))
	if w.cfg.Notebook != nil {
		var last time.Time
		if kernels.Last != nil {
			last = *kernels.Last
		}
		w.note(activity.Notebook, kernels.Active, last, now, kernels.Value)
	}
}

// note files what a signal says; mu held. A signal's last time never goes back.
func (w *Watch) note(name activity.Name, active bool, last, now time.Time, value string) {
	was := w.signals[name]
	next := activity.Signal{Name: name, Active: active, Last: was.Last, Value: value}
	if active {
		last = now
	}
	if !last.IsZero() && !last.After(now) && (next.Last == nil || last.After(*next.Last)) {
		next.Last = &last
	}
	w.signals[name] = next
}

// Used takes in what the processes used so far.
func (w *Watch) Used(u link.Usage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	span, spent := u.At.Sub(w.cpuAt), u.CPU-w.cpu
	first := w.cpuAt.IsZero()
	w.cpu, w.cpuAt = u.CPU, u.At
	if first || span <= 0 {
		return
	}
	cores := max(spent.Seconds()/span.Seconds(), 0)
	w.note(activity.CPU, cores >= activity.BusyCores, time.Time{}, u.At, fault.T("%.2f cores", "%.2f 核", cores).Pack())
}

// Read takes in what the driver says of the replica's devices.
func (w *Watch) Read(list []engine.Reading) {
	var busy, held float64 // of the busiest, and of the fullest
	for _, r := range list {
		busy = max(busy, min(max(r.Busy, 0), 1))
		if r.Total > 0 {
			held = max(held, min(max(float64(r.Used)/float64(r.Total), 0), 1))
		}
	}
	now := w.cfg.Clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(activity.Device, busy >= activity.BusyDevice, time.Time{}, now, fmt.Sprintf("%.0f %%", 100*busy))
	w.note(activity.DeviceMemory, held >= activity.HeldMemory, time.Time{}, now, fmt.Sprintf("%.0f %%", 100*held))
}

// namesOf shows programs by their names, which are the tenant's.
func namesOf(names []string) string {
	slices.Sort(names)
	names = slices.Compact(names)
	more := max(len(names)-maxNames, 0)
	var shown []string
	for _, n := range names[:len(names)-more] {
		n = strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) && r != unicode.ReplacementChar {
				return r
			}
			return -1
		}, n)
		shown = append(shown, n[:min(len(n), 32)])
	}
	text := strings.ToValidUTF8(strings.Join(shown, ", "), "")
	if more > 0 {
		text += fmt.Sprintf(" +%d", more)
	}
	return text
}
