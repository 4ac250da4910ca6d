package health

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/card"
)

var start = time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)

func n(v int64) *int64 { return &v }

// world plays the life of one device: what Decide writes is what it sees next.
type world struct {
	Seen
	now    time.Time
	events []Event
	tests  int
}

func newWorld() *world {
	return &world{now: start, Seen: Seen{Node: "n1", Device: api.Device{Index: 3, UUID: "GPU-1", Vendor: "nvidia"}, Boot: "b1", Reading: &card.DeviceReading{At: start}}}
}

// turn decides until nothing changes any more.
func (w *world) turn(t interface{ Fatalf(string, ...any) }) Verdict {
	for range 10 {
		v := Decide(w.Seen, w.now)
		w.events = append(w.events, v.Events...)
		if reflect.DeepEqual(v.Health, w.Health) {
			if len(v.Events) > 0 {
				t.Fatalf("nothing changed, and %+v was told", v.Events)
			}
			return v
		}
		w.Health = v.Health
	}
	t.Fatalf("it never rests: %+v", w.Health)
	return Verdict{}
}

func (w *world) test(t interface{ Fatalf(string, ...any) }, passed bool) {
	v := w.turn(t)
	if !v.Test {
		t.Fatalf("no test is wanted: %+v", w.Health)
	}
	w.later(time.Second)
	w.tests++
	w.Result = &card.DeviceTest{At: w.now, Passed: passed, How: "tested"}
	w.turn(t)
}

func (w *world) later(d time.Duration) { w.now = w.now.Add(d) }

func (w *world) line(code int, text string) {
	seq := uint64(len(w.Lines) + 100)
	w.Lines = append(w.Lines, card.KernelLine{Boot: w.Boot, Sequence: seq, At: w.now, Xid: code, Text: text})
}

func (w *world) order(o card.DeviceOrder) {
	w.later(time.Second)
	o.At, o.Device = w.now, 3
	w.Order = &o
}

func (w *world) state(t *testing.T, want card.DeviceState) {
	t.Helper()
	w.turn(t)
	got := card.DeviceOpen
	if w.Health != nil {
		got = w.Health.State
	}
	if got != want {
		t.Fatalf("%s, want %s: %+v", got, want, w.Health)
	}
}

// TestReadings: what a reading says, and what it asks for.
func TestReadings(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*card.DeviceReading)
		kind   string
		action card.DeviceAction
	}{
		"well":               {func(*card.DeviceReading) {}, "", ""},
		"corrected errors":   {func(r *card.DeviceReading) { r.ECC.VolatileCorrected = n(9) }, "", ""},
		"lost":               {func(r *card.DeviceReading) { r.Lost, r.ECC.VolatileUncorrected = true, n(1) }, "lost", card.ActionRestart},
		"silent":             {func(r *card.DeviceReading) { r.Silent = SilentFor }, "silent", card.ActionTest},
		"busy driver":        {func(r *card.DeviceReading) { r.Silent = SilentFor - 1 }, "", ""},
		"ecc":                {func(r *card.DeviceReading) { r.ECC.VolatileUncorrected = n(2) }, "ecc", card.ActionReset},
		"ecc long ago":       {func(r *card.DeviceReading) { r.ECC.AggregateUncorrected = n(2) }, "", ""},
		"rows":               {func(r *card.DeviceReading) { r.Repair.RowsUncorrected = n(1) }, "rows", card.ActionWatch},
		"rows pending":       {func(r *card.DeviceReading) { r.Repair.RowsUncorrected, r.Repair.Pending = n(1), true }, "rows", card.ActionReset},
		"rows failed":        {func(r *card.DeviceReading) { r.Repair.Failed = true }, "rows", card.ActionReset},
		"pages":              {func(r *card.DeviceReading) { r.Repair.PagesDouble = n(1) }, "pages", card.ActionWatch},
		"pages pending":      {func(r *card.DeviceReading) { r.Repair.PagesDouble, r.Repair.Pending = n(1), true }, "pages", card.ActionReset},
		"recovery":           {func(r *card.DeviceReading) { r.Repair.Recovery = "GPU Reset" }, "recovery", card.ActionReset},
		"reboot":             {func(r *card.DeviceReading) { r.Repair.Recovery = "Node Reboot" }, "recovery", card.ActionRestart},
		"hot for a moment":   {func(r *card.DeviceReading) { r.Slowed = SlowedFor - 1 }, "", ""},
		"hot":                {func(r *card.DeviceReading) { r.Slowed = SlowedFor }, "throttle", card.ActionTest},
		"nvlink":             {func(r *card.DeviceReading) { r.NVLink.Recovery = n(1) }, "nvlink", card.ActionTest},
		"nvlink as before":   {func(r *card.DeviceReading) { r.NVLink.Recovery = n(0) }, "", ""},
		"nvlink replays":     {func(r *card.DeviceReading) { r.NVLink.Replay, r.NVLink.CRC = n(5), n(5) }, "", ""},
		"pcie":               {func(r *card.DeviceReading) { r.PCIe.NonFatal = n(1) }, "pcie", card.ActionWatch},
		"pcie fatal":         {func(r *card.DeviceReading) { r.PCIe.Fatal, r.PCIe.NonFatal = n(1), n(1) }, "pcie", card.ActionTest},
		"pcie was corrected": {func(r *card.DeviceReading) { r.PCIe.Corrected = n(1000) }, "", ""},
	} {
		r := &card.DeviceReading{}
		c.change(r)
		got := Conditions(r, card.DeviceCounts{}, card.DeviceCounts{}, start)
		if c.kind == "" {
			if len(got) != 0 {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Kind != c.kind || got[0].Action != c.action || got[0].Message.EN == "" || got[0].Message.ZH == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// What was there at first, or was dealt with, is no news; a counter that began again is.
	r := &card.DeviceReading{NVLink: card.ReadingNVLink{Recovery: n(4)}, ECC: card.ReadingECC{VolatileUncorrected: n(4)}}
	if got := Conditions(r, card.DeviceCounts{ECC: 4}, card.DeviceCounts{NVLink: 4}, start); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	if got := Conditions(r, card.DeviceCounts{ECC: 9}, card.DeviceCounts{NVLink: 9}, start); len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

// TestXids: what codes ask for, and that the table is whole.
func TestXids(t *testing.T) {
	for _, c := range []struct {
		code int
		line string
		want card.DeviceAction
	}{
		{13, "", card.ActionNone}, {31, "", card.ActionNone}, {43, "", card.ActionNone}, {45, "", card.ActionNone},
		{63, "", card.ActionWatch}, {92, "", card.ActionWatch}, {94, "", card.ActionTest}, {999, "", card.ActionWatch},
		{48, "", card.ActionReset}, {74, "", card.ActionReset}, {95, "", card.ActionReset}, {119, "", card.ActionReset}, {79, "", card.ActionRestart},
		{149, "NETIR_LINK_EVT Fatal XC0 i0 Link 09", card.ActionReset}, {145, "RLW_REMAP Nonfatal XC1 i0 Link 16", card.ActionWatch},
		{154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", card.ActionRestart},
		{154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", card.ActionReset},
		{154, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", card.ActionNone},
	} {
		if got := XidAction(c.code, c.line); got != c.want {
			t.Errorf("%d %q: %s, want %s", c.code, c.line, got, c.want)
		}
	}
	for _, x := range Xids() {
		if !strings.Contains("none watch test reset restart", string(x.Action)) || strings.Contains(x.Text.EN, "%") {
			t.Errorf("%+v", x)
		}
	}
	if _, err := readXids([]byte(`[{"code":1,"action":"none","text":{"en":"a","zh":"b"},"other":1}]`)); err == nil {
		t.Error("an unknown word was read")
	}
}

// TestWayBack: closed, emptied, tested, returned; the node's history counts it for a day.
func TestWayBack(t *testing.T) {
	w := newWorld()
	w.state(t, card.DeviceOpen)
	if w.Health != nil {
		t.Fatalf("a device that is well has an entry: %+v", w.Health)
	}
	w.Busy = true
	w.line(94, "Contained")
	w.state(t, card.DeviceClosed)
	if w.Health.Reason != "xid-94" || len(w.events) != 1 || w.events[0].Reason != ReasonClosed || !strings.Contains(w.events[0].Text.EN, "Device 3: Xid 94") {
		t.Errorf("%+v %+v", w.Health, w.events)
	}
	w.later(time.Hour)
	w.state(t, card.DeviceClosed) // as long as it is busy
	w.Busy = false
	w.state(t, card.DeviceTesting)
	w.test(t, true)
	w.state(t, card.DeviceOpen)
	if h := w.Health; h.Reason != "" || h.ClosedAt != nil || len(h.Conditions) != 0 || h.Total != 1 || !h.Test.Passed {
		t.Errorf("%+v", h)
	}
	if got, next := Failures([]card.DeviceHealth{*w.Health}, w.now); got != 1 || next <= 22*time.Hour {
		t.Errorf("%d failures, the next change in %s", got, next)
	}
	if got, next := Failures([]card.DeviceHealth{*w.Health}, w.now.Add(Memory)); got != 0 || next != 0 {
		t.Errorf("%d failures a day later, then %s", got, next)
	}
	// The same line read again, by the next leader, is no news.
	w.state(t, card.DeviceOpen)
	w.line(13, "a program's own")
	w.state(t, card.DeviceOpen)
}

// TestKeptOut: what stays wrong keeps it out, until it is mended.
func TestKeptOut(t *testing.T) {
	w := newWorld()
	w.Reading.Lost = true
	w.state(t, card.DeviceTesting)
	w.test(t, true) // whatever the test says, the reading counts
	w.state(t, card.DeviceOut)
	if !strings.Contains(w.Health.Message.EN, "Restart its node") || !strings.Contains(w.Health.Message.ZH, "重启节点") {
		t.Errorf("%+v", w.Health.Message)
	}
	w.later(time.Hour)
	w.state(t, card.DeviceOut)
	w.Reading = &card.DeviceReading{At: w.now} // it is seen again, by a driver that can't say whether a reset is needed
	w.state(t, card.DeviceOut)
	w.Boot = "b2" // the node was restarted
	w.state(t, card.DeviceTesting)
	w.test(t, true)
	w.state(t, card.DeviceOpen)

	w = newWorld()
	w.line(95, "")
	w.state(t, card.DeviceTesting)
	w.test(t, true)
	w.state(t, card.DeviceOut) // nobody knows of a reset
	w.order(card.DeviceOrder{Order: card.OrderTest})
	w.state(t, card.DeviceTesting)
	w.test(t, false)
	w.state(t, card.DeviceOut)
	w.order(card.DeviceOrder{Order: card.OrderReturn})
	w.state(t, card.DeviceOpen)

	w = newWorld()
	w.Reading.Repair.KnowsRecovery = true
	w.line(48, "")
	w.state(t, card.DeviceTesting)
	w.test(t, true) // the driver says that nothing has to be recovered
	w.state(t, card.DeviceOpen)

	w = newWorld()
	w.Reading.Slowed = SlowedFor
	w.state(t, card.DeviceTesting)
	w.test(t, true)
	w.state(t, card.DeviceOut)
	w.Reading = &card.DeviceReading{}
	if v := w.turn(t); w.Health.State != card.DeviceOut || v.Wake <= 0 {
		t.Errorf("%+v %+v", w.Health, v)
	}
	w.later(TestAgain)
	w.state(t, card.DeviceTesting)
	w.test(t, true)
	w.state(t, card.DeviceOpen)
}

// TestTooOften: one that fails again and again is not trusted, though each test is passed.
func TestTooOften(t *testing.T) {
	w := newWorld()
	for range MostClosings {
		w.later(time.Minute)
		w.line(94, "")
		w.state(t, card.DeviceTesting)
		w.test(t, true)
		w.state(t, card.DeviceOpen)
	}
	w.later(time.Minute)
	w.line(94, "")
	w.test(t, true)
	w.state(t, card.DeviceOut)
	w.later(2 * TestAgain)
	w.state(t, card.DeviceOut)
	w.order(card.DeviceOrder{Order: card.OrderTest})
	w.test(t, true)
	w.state(t, card.DeviceOpen)
}

// TestDrills: a drill is taken as the fault itself, on any device; told to heal it ends with the test.
func TestDrills(t *testing.T) {
	for _, virtual := range []bool{false, true} {
		for _, kind := range append([]string{"xid-79", "xid-48"}, card.FaultKinds...) {
			w := newWorld()
			w.Device.Virtual, w.Busy = virtual, true
			w.order(card.DeviceOrder{Order: card.OrderFault, Kind: kind, Heal: true})
			w.state(t, card.DeviceClosed)
			if w.Health.Reason != kind {
				t.Errorf("%s: %+v", kind, w.Health)
			}
			w.Busy = false
			w.test(t, true)
			w.state(t, card.DeviceOpen)
			w.order(card.DeviceOrder{Order: card.OrderFault, Kind: kind})
			w.test(t, true)
			w.state(t, card.DeviceOut)
			w.later(5 * TestAgain)
			w.state(t, card.DeviceOut)
			w.order(card.DeviceOrder{Order: card.OrderFault, Kind: kind, Heal: true})
			w.test(t, true)
			w.state(t, card.DeviceOpen)
		}
	}
	w := newWorld()
	w.order(card.DeviceOrder{Order: card.OrderFault, Kind: "xid-13"})
	w.state(t, card.DeviceOpen)
}

// TestLives: over any life, it rests at once, never takes work untested, and is never tested while work stands on it.
func TestLives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		w.Device.Virtual = rapid.Bool().Draw(t, "virtual")
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			w.later(time.Duration(rapid.IntRange(1, 4000).Draw(t, "seconds")) * time.Second)
			r := *w.Reading
			before := w.Health
			var passed, returned bool
			switch rapid.IntRange(0, 12).Draw(t, "what") {
			case 0:
				w.line(rapid.SampledFrom([]int{13, 48, 63, 74, 79, 94, 154, 999}).Draw(t, "xid"), rapid.SampledFrom([]string{"", "to (Node Reboot Required)"}).Draw(t, "text"))
			case 1:
				r.Lost = !r.Lost
			case 2:
				r.ECC.VolatileUncorrected = n(rapid.Int64Range(0, 5).Draw(t, "ecc"))
			case 3:
				r.Slowed = time.Duration(rapid.IntRange(0, 120).Draw(t, "slowed")) * time.Second
			case 4:
				r.Repair.Pending = !r.Repair.Pending
			case 5:
				r.Repair.KnowsRecovery, r.Repair.Recovery = true, rapid.SampledFrom([]string{"", "GPU Reset"}).Draw(t, "recovery")
			case 6:
				r.NVLink.Recovery = n(rapid.Int64Range(0, 5).Draw(t, "nvlink"))
			case 7:
				w.Busy = !w.Busy
			case 8:
				w.order(card.DeviceOrder{Order: card.OrderFault, Kind: rapid.SampledFrom([]string{"xid-79", "ecc", "lost", "throttle"}).Draw(t, "kind"), Heal: rapid.Bool().Draw(t, "heal")})
			case 9:
				w.order(card.DeviceOrder{Order: card.OrderTest})
			case 10:
				w.order(card.DeviceOrder{Order: card.OrderReturn})
				returned = true
			case 11:
				w.Boot, w.Lines = w.Boot+"x", nil
			case 12:
				if w.Health != nil && w.Health.State == card.DeviceTesting {
					passed = rapid.Bool().Draw(t, "passed")
					w.Result = &card.DeviceTest{At: w.now, Passed: passed}
				}
			}
			w.Reading = &r
			w.Reading.At = w.now
			if w.Busy && shut(w.Health) && w.Health.State != card.DeviceClosed {
				w.Busy = false // nothing is placed on a closed device
			}
			w.turn(t)
			h := w.Health
			switch {
			case h == nil:
				continue
			case shut(before) && !shut(h) && !passed && !returned:
				t.Fatalf("it takes work again untested: %+v", h)
			case w.Busy && (h.State == card.DeviceTesting || h.State == card.DeviceOut && shut(before) && before.State == card.DeviceClosed):
				t.Fatalf("it is tested under work: %+v", h)
			case shut(h) != (h.ClosedAt != nil), shut(h) != (h.Reason != ""), shut(h) && (h.Message.EN == "" || h.Message.ZH == ""):
				t.Fatalf("closed without a reason, or the other way round: %+v", h)
			case len(h.Faults) > maxFaults, h.Total < len(h.Faults), strings.Contains(h.Message.EN+h.Message.ZH, "%!"):
				t.Fatalf("%+v", h)
			case r.Lost && !shut(h) && !returned:
				t.Fatalf("a lost one takes work: %+v", h)
			}
		}
	})
}

func shut(h *card.DeviceHealth) bool { return h != nil && h.Closed() }
