package inspect

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/engine"
	"github.com/fermi-cluster/fermi/internal/launch/process"
	"github.com/fermi-cluster/fermi/internal/preflight"
	sdk "github.com/fermi-cluster/fermi/sdk/python"
)

// TestTrial: what a process says and does about its devices, and what is made of it.
func TestTrial(t *testing.T) {
	two := []api.Device{{Index: 4, Vendor: "nvidia"}, {Index: 6, Vendor: "nvidia"}}
	computed := func(list ...preflight.DeviceFault) preflight.Devices {
		return preflight.Devices{Test: preflight.Computed, Faults: list}
	}
	const well = `echo '{"end":0,"fault":"","text":""}';`
	for name, c := range map[string]struct {
		devices []api.Device
		script  string
		want    preflight.Devices
	}{
		"all right":          {two, `echo a library says this; echo '{"begin":0}'; echo '{"begin":1}';` + well + `echo '{"end":1,"fault":"","text":""}'; sleep 1000`, computed()},
		"a wrong result":     {two, `echo '{"begin":1}';` + well + `echo '{"end":1,"fault":"wrong","text":"why"}'; sleep 1000`, computed(preflight.DeviceFault{Index: 6, Kind: preflight.DeviceWrong, Text: "why"})},
		"an unknown fault":   {two, well + `echo '{"end":1,"fault":"else","text":"why"}'`, computed(preflight.DeviceFault{Index: 6, Kind: preflight.DeviceFailed, Text: "why"})},
		"it hangs":           {two, well + `echo '{"begin":1}'; sleep 1000 # hangs`, computed(preflight.DeviceFault{Index: 6, Kind: preflight.DeviceHung})},
		"it dies":            {two, `echo '{"begin":0}';` + well + `echo '{"begin":1}'; kill -9 $$`, computed(preflight.DeviceFault{Index: 6, Kind: preflight.DeviceFailed, Text: "its process ended"})},
		"fewer are seen":     {two, `echo '{"seen":1}'`, computed(preflight.DeviceFault{Index: 4, Kind: preflight.DeviceUnseen, Count: 1})},
		"no PyTorch":         {two, `echo '{"none":"why"}'`, preflight.Devices{}},
		"it never begins":    {two, `exit 3`, preflight.Devices{}},
		"no such device":     {two, `echo '{"end":7}'`, preflight.Devices{}},
		"processors right":   {nil, well, computed()},
		"processors wrong":   {nil, `echo '{"end":0,"fault":"wrong","text":"why"}'`, computed(preflight.DeviceFault{Kind: preflight.DeviceProcessor, Text: "why"})},
		"processors slow":    {nil, `echo '{"begin":0}'; sleep 1000 # hangs`, preflight.Devices{}},
		"processors failing": {nil, `echo '{"end":0,"fault":"failed","text":"why"}'`, preflight.Devices{}},
	} {
		var p *process.Set
		there := make(chan struct{})
		close(there)
		tr := &trial{there: there, devices: c.devices, imports: time.Minute, works: time.Minute, log: quiet, start: func(out uintptr) (_ *process.Set, err error) {
			p, err = BeginTrial(engine.Replica{Command: []string{"/bin/sh", "-c", c.script}}, os.Environ(), out, asNamed.Plain)
			return p, err
		}}
		if strings.HasSuffix(c.script, "# hangs") {
			tr.works = 10 * time.Millisecond
		}
		if d := cmp.Diff(c.want, tr.run(t.Context())); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		eventually(t, name+": nothing of it is left", func() bool { return unix.Kill(-p.PIDs[0], 0) == unix.ESRCH })
	}
	if got := (*trial)(nil).run(t.Context()); got.Test != "" {
		t.Errorf("%+v", got)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if got := (&trial{imports: time.Minute}).run(over); got.Test != "" {
		t.Errorf("before the code is there: %+v", got)
	}
}

// asNamed finds programs that are named by their full path.
var asNamed process.Finder = func(name, _, _ string) (string, error) { return name, nil }

// TestTogether: a device that the driver complains about is named once.
func TestTogether(t *testing.T) {
	driver := preflight.Devices{Test: preflight.Tested, Faults: []preflight.DeviceFault{{Index: 1, Kind: preflight.DeviceErrors}}}
	if d := cmp.Diff(driver, together(driver, preflight.Devices{})); d != "" {
		t.Error(d)
	}
	got := together(driver, preflight.Devices{Test: preflight.Computed, Faults: []preflight.DeviceFault{{Index: 1, Kind: preflight.DeviceWrong}, {Index: 2, Kind: preflight.DeviceHung}}})
	want := preflight.Devices{Test: preflight.Computed, Faults: []preflight.DeviceFault{{Index: 1, Kind: preflight.DeviceErrors}, {Index: 2, Kind: preflight.DeviceHung}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestTrialOf: nothing is computed where it would not be by the ranks' own interpreter on real devices.
func TestTrialOf(t *testing.T) {
	torch := &preflight.Facts{Versions: map[string]string{"torch": "2"}}
	python := engine.Replica{Command: []string{"/usr/bin/python3", "train.py"}}
	with := func(change func(*engine.Replica)) engine.Replica {
		r := python
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		replica engine.Replica
		facts   *preflight.Facts
		want    bool
	}{
		"processors":      {python, torch, true},
		"a card":          {with(func(r *engine.Replica) { r.Devices = []api.Device{{Vendor: "nvidia"}} }), torch, true},
		"Ascend":          {with(func(r *engine.Replica) { r.Devices = []api.Device{{Vendor: "ascend"}} }), torch, true},
		"another maker":   {with(func(r *engine.Replica) { r.Devices = []api.Device{{Vendor: "acme"}} }), torch, false},
		"several makers":  {with(func(r *engine.Replica) { r.Devices = []api.Device{{Vendor: "nvidia"}, {Vendor: "huawei"}} }), torch, false},
		"virtual devices": {with(func(r *engine.Replica) { r.Devices = []api.Device{{Vendor: "nvidia", Virtual: true}} }), torch, false},
		"a virtual node":  {with(func(r *engine.Replica) { r.Virtual = true }), torch, false},
		"a shell":         {with(func(r *engine.Replica) { r.Command = []string{"sh"} }), torch, false},
		"no PyTorch":      {python, &preflight.Facts{}, false},
		"no preflight":    {python, nil, false},
	} {
		if got := TrialOf(c.replica, c.facts, nil, nil, nil) != nil; got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestTorchTrial: the SDK's own self-test with Debian's PyTorch.
func TestTorchTrial(t *testing.T) {
	if _, err := os.Stat("/usr/lib/python3/dist-packages/torch"); err != nil {
		t.Skip("PyTorch is not installed; make e2e-torch does it and runs this")
	}
	there := make(chan struct{})
	close(there)
	tr := &trial{there: there, imports: 5 * time.Minute, works: 5 * time.Minute, log: quiet, start: func(out uintptr) (*process.Set, error) {
		return BeginTrial(engine.Replica{Command: []string{"/usr/bin/python3", "-c", sdk.SelfTest, "cpu", "1"}}, os.Environ(), out, asNamed.Plain)
	}}
	if d := cmp.Diff(preflight.Devices{Test: preflight.Computed}, tr.run(t.Context())); d != "" {
		t.Error(d)
	}
}
