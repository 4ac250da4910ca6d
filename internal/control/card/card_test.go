package card

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/id"
	"github.com/fermi-cluster/fermi/internal/store"
	"github.com/fermi-cluster/fermi/internal/store/storetest"
)

const patience = time.Minute

// machine is a node with three real cards, whose sensor the test plays.
type machine struct {
	*testing.T
	store *store.Store
	ctl   *Controller
	lines chan card.KernelLine

	mu       sync.Mutex
	readings map[int]*card.DeviceReading
	passes   bool
	tests    int
	events   []history.Event
	seen     int64
}

func (m *machine) AddEvents(_ context.Context, events ...history.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, events...)
	return nil
}

func (m *machine) read(_ context.Context, devices []api.Device) map[int]*card.DeviceReading {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[int]*card.DeviceReading{}
	for _, d := range devices {
		r := *m.readings[d.Index]
		out[d.Index] = &r
	}
	return out
}

func (m *machine) test(context.Context, *api.Node, int) card.DeviceTest {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tests++
	return card.DeviceTest{Passed: m.passes, How: "tested"}
}

func (m *machine) follow(ctx context.Context, take func(card.KernelLine)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case l := <-m.lines:
			take(l)
		}
	}
}

func (m *machine) says(device int, change func(*card.DeviceReading)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := *m.readings[device]
	change(&r)
	m.readings[device] = &r
}

func (m *machine) commit(op store.Op) {
	m.Helper()
	rev, err := m.store.Commit(m.Context(), store.Txn{Ops: []store.Op{op}})
	if err == nil {
		_, err = m.store.List(m.Context(), api.KindNode, "", rev) // what comes next finds it: a card that nobody seems to use is tested at once
	}
	if err != nil {
		m.Fatal(err)
	}
	m.seen = rev
}

func (m *machine) node() *api.Node {
	m.Helper()
	o, err := m.store.Get(m.Context(), api.Key{Kind: api.KindNode, Name: "n1"}, m.seen)
	if err != nil {
		m.Fatal(err)
	}
	return o.(*api.Node)
}

func (m *machine) until(what string, ok func(n *api.Node) bool) *api.Node {
	m.Helper()
	for deadline := time.Now().Add(patience); ; <-clock.Real.After(time.Millisecond) {
		if n := m.node(); ok(n) {
			return n
		} else if time.Now().After(deadline) {
			m.Fatalf("never %s: %+v", what, n.Status.Devices)
		}
	}
}

func (m *machine) state(device int, want card.DeviceState) *card.DeviceHealth {
	m.Helper()
	n := m.until("device "+string(want), func(n *api.Node) bool {
		h := card.Of(n.Status.Devices, device)
		return h != nil && h.State == want
	})
	return card.Of(n.Status.Devices, device)
}

// start runs a leadership; stop ends it.
func (m *machine) start() (stop func()) {
	m.ctl = New(Config{
		Store: m.store, Events: m, Clock: clock.Real, Log: slog.New(slog.DiscardHandler), Boot: "b1", Read: m.read, Follow: m.follow, Test: m.test, Every: 5 * time.Millisecond,
	}, store.Epoch{})
	ctx, cancel := context.WithCancel(m.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.ctl.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			m.Error(err)
		}
	}
}

func newMachine(t *testing.T) *machine {
	m := &machine{T: t, store: storetest.Open(t), lines: make(chan card.KernelLine), readings: map[int]*card.DeviceReading{}, passes: true}
	var devices []api.Device
	for i, bus := range []string{"0000:3b:00.0", "0000:3c:00.0", "0000:3d:00.0"} {
		devices = append(devices, api.Device{Index: i, UUID: "GPU-" + bus, Bus: bus, Vendor: "nvidia", Type: "H200"})
		m.readings[i] = &card.DeviceReading{UUID: "GPU-" + bus, Bus: bus, Repair: card.ReadingRepair{KnowsRecovery: true}}
	}
	m.commit(store.Create(&api.Node{
		Meta: api.Meta{ID: id.Default.New("node"), Name: "n1"}, Spec: api.NodeSpec{Number: 7, Zone: "z", Devices: devices}, Status: api.NodeStatus{Ready: true, BootID: "b1"},
	}))
	return m
}

// TestARealCard: a line of the kernel closes its card and no other; it is tested when its task has left, and returns; a reading
// that changes nothing writes nothing; the next leader knows what was dealt with.
func TestARealCard(t *testing.T) {
	m := newMachine(t)
	stop := m.start()
	place := &api.Placement{
		Meta: api.Meta{ID: id.Default.New("plc"), Name: "task-1", Project: "p"},
		Spec: api.PlacementSpec{TaskID: "task-1", Attempt: 1, Roles: []api.RoleAssignment{{Role: "worker", Slots: api.Slots{{Node: 7, Devices: 0b010}}}}},
	}
	m.commit(store.Create(place))
	line := card.KernelLine{Boot: "b1", Sequence: 9, At: time.Now(), Bus: "0000:3c:00", Xid: 48, Text: "DBE"}
	m.lines <- line
	h := m.state(1, card.DeviceClosed)
	if h.Reason != "xid-48" || h.ClosedAt == nil || h.Faults[0].Source != card.FaultOfKernel {
		t.Errorf("%+v", h)
	}
	n := m.node()
	if len(n.Status.Devices) != 1 || n.Status.Failures != 1 || card.Closed(n.Status.Devices) != 0b010 {
		t.Errorf("%+v", n.Status)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.ctl)
	m.until("in the metrics", func(*api.Node) bool {
		counts := map[string]int{}
		families, err := registry.Gather()
		for _, f := range families {
			counts[f.GetName()] = len(f.GetMetric())
		}
		return err == nil && counts["fermi_device_closed"] == 1 && counts["fermi_device_faults"] == 1 && counts["fermi_device_reading"] >= 6
	})
	m.commit(store.Delete(api.KeyOf(place), 0))
	m.state(1, card.DeviceOpen)
	if m.tests != 1 {
		t.Errorf("%d tests", m.tests)
	}
	// Many readings without news: no write.
	before := m.node().Meta.Revision
	m.lines <- card.KernelLine{Boot: "b1", Sequence: 10, At: time.Now(), Bus: "0000:3b:00", Xid: 13, Text: "a program's own"}
	m.lines <- line
	stop()
	if now := m.node().Meta.Revision; now != before {
		t.Errorf("revision %d became %d", before, now)
	}
	stop = m.start()
	defer stop()
	m.lines <- line                                                                                                       // the next leader reads the log from its beginning
	m.lines <- card.KernelLine{Boot: "b1", Sequence: 11, At: time.Now(), Bus: "0000:3d:00", Xid: 79, Text: "off the bus"} // so that we know that it was read
	m.state(2, card.DeviceOpen)                                                                                           // tested and returned: the driver wants nothing recovered
	if h := card.Of(m.node().Status.Devices, 1); h.Total != 1 {
		t.Errorf("the line was taken up twice: %+v", h)
	}
}

// TestReadingsCloseAndReturn: a card that drops is kept out while it is lost, others go on; when it is back it is tested.
func TestReadingsCloseAndReturn(t *testing.T) {
	m := newMachine(t)
	defer m.start()()
	m.says(0, func(r *card.DeviceReading) { r.Lost, r.Says = true, "GPU is lost" })
	h := m.state(0, card.DeviceOut)
	if h.Reason != "lost" || !strings.Contains(h.Message.EN, "GPU is lost") || len(m.node().Status.Devices) != 1 {
		t.Errorf("%+v", h)
	}
	m.says(2, func(r *card.DeviceReading) { one := int64(1); r.ECC.VolatileUncorrected = &one })
	m.until("the second returned", func(n *api.Node) bool {
		h := card.Of(n.Status.Devices, 2)
		return h != nil && h.State == card.DeviceOpen && h.Total == 1 && h.Counted.ECC == 1
	})
	if card.Closed(m.node().Status.Devices) != 0b001 {
		t.Errorf("%+v", m.node().Status.Devices)
	}
	// An operator has the card reseated and asks for a test.
	m.says(0, func(r *card.DeviceReading) { r.Lost = false })
	for {
		n := store.Clone(m.node())
		n.Spec.DeviceOrders = card.Give(n.Spec.DeviceOrders, card.DeviceOrder{Device: 0, Order: card.OrderTest, At: time.Now()})
		if _, err := m.store.Commit(t.Context(), store.Txn{Ops: []store.Op{store.Update(n)}}); err == nil {
			break
		}
	}
	m.state(0, card.DeviceOpen)
	m.mu.Lock()
	defer m.mu.Unlock()
	var reasons []string
	for _, e := range m.events {
		reasons = append(reasons, e.Reason)
	}
	if all := strings.Join(reasons, " "); !strings.Contains(all, "DeviceClosed") || !strings.Contains(all, "DeviceKeptOut") || !strings.Contains(all, "DeviceReturned") {
		t.Error(all)
	}
}
