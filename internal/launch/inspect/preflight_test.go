package inspect

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/launch/port"
	"github.com/fermi-cluster/fermi/internal/launch/steward"
	"github.com/fermi-cluster/fermi/internal/preflight"
	"github.com/fermi-cluster/fermi/test/foreign"
)

// peer is a rehearsal with reserved ports, as a launcher has them.
type peer struct {
	Rehearsal
	lead, serve *port.Reservation
	said        chan *preflight.Report
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	p := &peer{said: make(chan *preflight.Report, 1)}
	for _, r := range []**port.Reservation{&p.lead, &p.serve} {
		var err error
		if *r, err = port.Reserve(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*r).Free)
	}
	p.Prepare(func(r *preflight.Report) { p.said <- r }, nil, nil, p.lead.Port, p.serve.Port)
	t.Cleanup(p.Stop)
	return p
}

func (p *peer) answer(t *testing.T) *preflight.Report {
	t.Helper()
	select {
	case r := <-p.said:
		return r
	case <-time.After(time.Minute):
		t.Fatal("no report")
		return nil
	}
}

func local(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

func hold(t *testing.T, port int) {
	t.Helper()
	l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	foreign.HangUp(t, l)
}

// TestPreflightPair: two launchers reach each other on the ports they keep for their ranks, which are
// free for those afterwards.
func TestPreflightPair(t *testing.T) {
	a, b := newPeer(t), newPeer(t)
	a.Begin(preflight.Round{ID: "r", Targets: []preflight.Target{{Name: "b", Address: local(b.serve.Port), Bandwidth: true}}})
	b.Begin(preflight.Round{ID: "r", Targets: []preflight.Target{{Name: "a", Address: local(a.lead.Port)}, {Name: "a", Address: local(a.serve.Port), Bandwidth: true}}})
	for _, p := range []*peer{a, b} {
		r := p.answer(t)
		if r.Round != "r" || r.Listen != "" {
			t.Errorf("%+v", r)
		}
		for _, one := range r.Results {
			if one.Error != "" || one.Latency <= 0 || one.Bandwidth && one.Rate <= 0 {
				t.Errorf("%+v", one)
			}
		}
	}
	a.Stop()
	l, err := net.Listen("tcp", local(a.lead.Port))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	a.Begin(preflight.Round{ID: "s"}) // it has started: nothing is opened any more
	if c, err := net.Dial("tcp", local(a.lead.Port)); err == nil {
		c.Close()
		t.Error("it listens after its ranks started")
	}
}

// TestPreflightBlocked: a port that another program holds, one that nobody listens on, and a peer of
// another round.
func TestPreflightBlocked(t *testing.T) {
	a, b, other := newPeer(t), newPeer(t), newPeer(t)
	hold(t, a.lead.Port)
	a.Begin(preflight.Round{ID: "r"})
	other.Begin(preflight.Round{ID: "another"})
	free, err := port.Reserve() // bound by us, and nobody listens
	if err != nil {
		t.Fatal(err)
	}
	defer free.Free()
	b.Begin(preflight.Round{ID: "r", Targets: []preflight.Target{
		{Name: "a", Address: local(a.lead.Port)}, {Name: "a", Address: local(a.serve.Port)}, {Name: "c", Address: local(free.Port)}, {Name: "d", Address: local(other.lead.Port)},
	}})
	if r := a.answer(t); r.Listen != preflight.Taken || r.Port != a.lead.Port {
		t.Errorf("%+v", r)
	}
	var got []string
	for _, one := range b.answer(t).Results {
		got = append(got, one.Error)
	}
	if d := cmp.Diff([]string{preflight.Stranger, "", preflight.Refused, preflight.Stranger}, got); d != "" {
		t.Error(d)
	}
}

// TestFacts reads versions as an interpreter would find them, and runs nothing.
func TestFacts(t *testing.T) {
	dir := t.TempDir()
	first, second, bin := filepath.Join(dir, "first"), filepath.Join(dir, "second"), filepath.Join(dir, "venv", "bin")
	site := filepath.Join(dir, "venv", "lib", "python3.12", "site-packages")
	for _, d := range []string{
		filepath.Join(first, "torch-2.1.0+cu118.dist-info"), filepath.Join(second, "torch-1.13.1.dist-info"),
		filepath.Join(second, "mpi4py-3.1.4-py3.11.egg-info"), filepath.Join(second, "nothing.dist-info"), filepath.Join(site, "numpy-1.26.0.dist-info"), bin,
	} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(bin, "python3.12"), []byte("#!/bin/false\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("python3.12", filepath.Join(bin, "python3")); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + bin, "PYTHONPATH=" + first + ":relative:" + second + ":" + filepath.Join(dir, "none")}
	f := FactsOf(steward.New(nil), []string{"python3", "train.py"}, env, dir)
	for _, own := range []string{"driver", "image", "cuda"} { // of this machine
		delete(f.Versions, own)
	}
	if d := cmp.Diff(map[string]string{"python": "3.12", "torch": "2.1.0+cu118", "mpi4py": "3.1.4", "numpy": "1.26.0"}, f.Versions); d != "" {
		t.Error(d)
	}
	if f.FreeDisk <= 0 {
		t.Errorf("%+v", f)
	}
	if f := FactsOf(steward.New(nil), []string{"sh"}, []string{"PATH=" + first}, dir); f.Versions["python"] != "" {
		t.Errorf("%+v", f.Versions)
	}
}

// TestFactsOfTheSystem: what the node was made from, by files of its own.
func TestFactsOfTheSystem(t *testing.T) {
	for want, said := range map[string]string{
		"debian 12":             "PRETTY_NAME=\"Debian\"\nVERSION_ID=\"12\"\nID=debian\n",
		"ai-node 7.2":           "ID=debian\nIMAGE_ID=ai-node\nIMAGE_VERSION='7.2'\n",
		"arch rolling":          "ID=arch\nBUILD_ID=rolling\n",
		"":                      "nothing\n",
		strings.Repeat("x", 64): "ID=" + strings.Repeat("x", 200) + "\n",
	} {
		if got := imageIn([]byte(said)); got != want {
			t.Errorf("%q of %q", got, said)
		}
	}
	if imageIn(nil) != "" || cudaIn(nil) != "" {
		t.Error("something of nothing")
	}
	if got := cudaIn([]byte(`{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}, "more": []}`)); got != "12.4.1" {
		t.Error(got)
	}
}

// TestDevicesAreLookedAt: who is unwell is named; where nobody can be asked, that is said.
func TestDevicesAreLookedAt(t *testing.T) {
	real := []api.Device{{Index: 2, UUID: "GPU-a", Vendor: "nvidia"}, {Index: 5, UUID: "GPU-b", Vendor: "nvidia"}}
	says := func(list ...engine.Reading) engine.Readings {
		return func([]api.Device) ([]engine.Reading, bool) { return list, list != nil }
	}
	for name, c := range map[string]struct {
		devices []api.Device
		read    engine.Readings
		want    preflight.Devices
	}{
		"none":      {nil, says(), preflight.Devices{}},
		"virtual":   {[]api.Device{{Virtual: true}}, says(), preflight.Devices{Test: preflight.Virtual}},
		"no reader": {real, nil, preflight.Devices{Test: preflight.Untested}},
		"no driver": {real, says(), preflight.Devices{Test: preflight.Untested}},
		"well":      {real, says(engine.Reading{Busy: 1}, engine.Reading{}), preflight.Devices{Test: preflight.Tested}},
		"lost":      {real, says(engine.Reading{}, engine.Reading{Lost: true}), preflight.Devices{Test: preflight.Tested, Faults: []preflight.DeviceFault{{Index: 5, Kind: preflight.DeviceLost}}}},
		"errors":    {real, says(engine.Reading{Errors: 9, Pending: true}, engine.Reading{}), preflight.Devices{Test: preflight.Tested, Faults: []preflight.DeviceFault{{Index: 2, Kind: preflight.DeviceErrors, Count: 9}}}},
		"pending":   {real, says(engine.Reading{Pending: true}, engine.Reading{}), preflight.Devices{Test: preflight.Tested, Faults: []preflight.DeviceFault{{Index: 2, Kind: preflight.DevicePending}}}},
		"slowed":    {real, says(engine.Reading{}, engine.Reading{Slowed: true}), preflight.Devices{Test: preflight.Tested, Faults: []preflight.DeviceFault{{Index: 5, Kind: preflight.DeviceSlowed}}}},
	} {
		if d := cmp.Diff(c.want, JudgeDevices(c.devices, c.read)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	// A driver that hangs is named when the time is over, and holds up nobody.
	hangs := make(chan struct{})
	defer close(hangs)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if got := testDevices(func() preflight.Devices { <-hangs; return preflight.Devices{} })(over); len(got.Faults) != 1 || got.Faults[0].Kind != preflight.DeviceSilent {
		t.Errorf("%+v", got)
	}
}

var quiet = slog.New(slog.DiscardHandler)

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
