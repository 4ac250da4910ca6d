package sensor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

// Config makes a Sensor. Empty paths are the machine's own.
type Config struct {
	SMI   string // NVIDIA's tool
	Sys   string // where sysfs is
	Kmsg  string // the kernel's log
	Boot  string // id of this boot
	Clock clock.Clock
	Log   *slog.Logger
	// Patience is how long the tool may take for all cards, and half of it for one; 10 s when 0.
	Patience time.Duration
}

// Sensor reads the devices of this machine. Safe for concurrent use.
type Sensor struct {
	cfg Config

	mu sync.Mutex
	// silent and slowed are since when a card has been so, by UUID.
	silent, slowed map[string]time.Time
	stuck          map[string]bool // calls of the tool that have not come back, by their arguments
	linkless       bool            // the tool knows of no NVLink here
}

// New makes a sensor; it starts nothing.
func New(cfg Config) *Sensor {
	for _, d := range []struct {
		at   *string
		path string
	}{{&cfg.SMI, "nvidia-smi"}, {&cfg.Sys, "/sys"}, {&cfg.Kmsg, "/dev/kmsg"}} {
		if *d.at == "" {
			*d.at = d.path
		}
	}
	if cfg.Patience == 0 {
		cfg.Patience = 10 * time.Second
	}
	return &Sensor{cfg: cfg, silent: map[string]time.Time{}, slowed: map[string]time.Time{}, stuck: map[string]bool{}}
}

// Read says what is known of these devices now, one reading for each that somebody can be asked for: virtual ones and those
// of makers whose tool is not here have none. It takes at most three times the patience.
func (s *Sensor) Read(ctx context.Context, devices []api.Device) map[int]*card.DeviceReading {
	devices = slices.DeleteFunc(slices.Clone(devices), func(d api.Device) bool {
		return d.Virtual || d.UUID == "" || !strings.EqualFold(d.Vendor, "nvidia")
	})
	if len(devices) == 0 {
		return nil
	}
	raw, err := s.run(ctx, s.cfg.Patience, "-q", "-x")
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
		return nil // there is nobody to ask
	}
	found := map[string]card.DeviceReading{}
	list, _ := ParseSMI(raw) // what is garbled, or broken off at a bad card, is asked for again card by card
	for _, r := range list {
		found[r.UUID] = r
	}
	out := map[int]*card.DeviceReading{}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, d := range devices {
		if r, ok := found[d.UUID]; ok {
			out[d.Index] = &r
			continue
		}
		wg.Go(func() {
			r := s.one(ctx, d)
			mu.Lock()
			defer mu.Unlock()
			out[d.Index] = &r
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil
	}
	links := s.links(ctx)
	now := s.cfg.Clock.Now().UTC()
	for _, d := range devices {
		r := out[d.Index]
		r.At = now
		if r.Bus == "" {
			r.Bus = d.Bus
		}
		if l := links[d.UUID]; l != nil {
			r.NVLink = *l
		}
		if !readPCI(s.cfg.Sys, r.Bus, &r.PCIe) {
			r.Lost, r.Says = true, first(r.Says, "it is not on the bus any more")
		}
		s.last(d.UUID, r)
	}
	return out
}

// Cards are those that the tool knows, in the order of their places on the bus. nil: there is no tool, or it does not answer.
func (s *Sensor) Cards(ctx context.Context) (out []api.Device) {
	raw, err := s.run(ctx, s.cfg.Patience, "-q", "-x")
	if err != nil {
		return nil
	}
	list, _ := ParseSMI(raw)
	slices.SortFunc(list, func(a, b card.DeviceReading) int { return strings.Compare(a.Bus, b.Bus) })
	for i, r := range list {
		out = append(out, api.Device{Index: i, UUID: r.UUID, Bus: r.Bus, Vendor: "nvidia", Type: r.Load.Model})
	}
	return out
}

// one asks for a single card, after the others were read or could not be.
func (s *Sensor) one(ctx context.Context, d api.Device) card.DeviceReading {
	raw, err := s.run(ctx, s.cfg.Patience/2, "-q", "-x", "-i", d.UUID)
	list, bad := ParseSMI(raw)
	for _, r := range list {
		if r.UUID == d.UUID {
			return r
		}
	}
	r := card.DeviceReading{UUID: d.UUID, Bus: d.Bus, Silent: 1} // how long is said by last
	said := string(raw)
	if err != nil {
		said += " " + err.Error()
	}
	switch {
	case errors.Is(err, errStuck):
	case lostWords.MatchString(said):
		r.Lost, r.Says, r.Silent = true, clean(said), 0
	case bad == nil: // all is well, and the card is not there
		r.Lost, r.Says, r.Silent = true, "the driver does not know it any more", 0
	}
	return r
}

// lostWords are how the tool says that a card does not answer, or that there is no such card.
var lostWords = pattern.New(`(?i)is lost|no devices were found|unknown error|fallen off|unable to determine the device handle`)

// last says since when a card is silent or slowed.
func (s *Sensor) last(uuid string, r *card.DeviceReading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := slices.ContainsFunc(r.Throttle, func(why string) bool { return strings.HasPrefix(why, "hw_") })
	r.Silent = lasting(s.silent, uuid, r.Silent > 0, r.At)
	r.Slowed = lasting(s.slowed, uuid, held, r.At)
}

func lasting(since map[string]time.Time, uuid string, so bool, now time.Time) time.Duration {
	if !so {
		delete(since, uuid)
		return 0
	}
	if _, ok := since[uuid]; !ok {
		since[uuid] = now
	}
	return max(now.Sub(since[uuid]), 1)
}

// links are the NVLinks of all cards; nil where there are none.
func (s *Sensor) links(ctx context.Context) map[string]*card.ReadingNVLink {
	s.mu.Lock()
	none := s.linkless
	s.mu.Unlock()
	if none {
		return nil
	}
	out := map[string]*card.ReadingNVLink{}
	for _, what := range []string{"-e", "-s"} {
		raw, err := s.run(ctx, s.cfg.Patience/2, "nvlink", what)
		if err != nil {
			return nil
		}
		ParseNVLink(raw, out)
	}
	if len(out) == 0 {
		s.mu.Lock()
		s.linkless = true
		s.mu.Unlock()
	}
	return out
}

var errStuck = errors.New("the tool does not answer")

// run calls the tool. One that does not end in time is killed and left behind: in the depths of a broken driver it can't even
// be killed, and the same is not asked again until it has ended.
func (s *Sensor) run(ctx context.Context, patience time.Duration, args ...string) ([]byte, error) {
	key := strings.Join(args, " ")
	s.mu.Lock()
	if s.stuck[key] {
		s.mu.Unlock()
		return nil, errStuck
	}
	s.stuck[key] = true
	s.mu.Unlock()
	done := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.stuck, key)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.Command(s.cfg.SMI, args...)
	var said, complained bounded
	cmd.Stdout, cmd.Stderr = &said, &complained
	cmd.Env = append(cmd.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		done()
		return nil, fmt.Errorf("ask %s: %w", s.cfg.SMI, err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		done()
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			err = fmt.Errorf("%w: %s", err, clean(string(complained.bytes())))
		}
		return said.bytes(), err
	case <-ctx.Done():
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		return nil, errStuck
	}
}

// bounded keeps the beginning of what is written. Safe for concurrent use: who was left behind may still write.
type bounded struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if room := maxOutput - b.data.Len(); room > 0 {
		b.data.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

func (b *bounded) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.data.Bytes())
}
