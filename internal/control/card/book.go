package card

import (
	"slices"
	"sync"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/internal/health"
)

// maxLines bounds what is kept of the kernel's log; one that is older and was not dealt with is dropped.
const maxLines = 1024

// nodeAndDevice names a device.
type nodeAndDevice struct {
	node   string
	device int
}

// book is what one leadership knows beside the store. Safe for concurrent use.
type book struct {
	mu       sync.Mutex
	places   map[string][]api.Slot // by placement: where it stands
	readings map[string]map[int]*card.DeviceReading
	base     map[nodeAndDevice]card.DeviceCounts
	lines    []card.KernelLine
	results  map[nodeAndDevice]*card.DeviceTest
	testing  map[nodeAndDevice]bool
	revision map[string]int64 // of our last write, by node
	closed   map[uint32]string
	health   map[string][]card.DeviceHealth // as last written, for the metrics
}

func newBook() *book {
	return &book{
		places: map[string][]api.Slot{}, readings: map[string]map[int]*card.DeviceReading{}, base: map[nodeAndDevice]card.DeviceCounts{},
		results: map[nodeAndDevice]*card.DeviceTest{}, testing: map[nodeAndDevice]bool{}, revision: map[string]int64{}, closed: map[uint32]string{},
		health: map[string][]card.DeviceHealth{},
	}
}

// place notes where a placement stands, nil: nowhere any more. It names the nodes with closed devices that it touches.
func (b *book) place(name string, p *api.Placement) (touched []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	slots := b.places[name]
	delete(b.places, name)
	if p != nil {
		var now []api.Slot
		for _, r := range p.Spec.Roles {
			for _, s := range r.Slots {
				if s.Devices != 0 {
					now = append(now, s)
				}
			}
		}
		b.places[name] = now
		slots = append(slices.Clone(slots), now...)
	}
	for _, s := range slots {
		if node, ok := b.closed[s.Node]; ok && !slices.Contains(touched, node) {
			touched = append(touched, node)
		}
	}
	return touched
}

// observe is all that is known about a node.
func (b *book) observe(n *api.Node, local bool) seen {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := seen{node: n, readings: b.readings[n.Meta.Name], base: map[int]card.DeviceCounts{}, results: map[int]*card.DeviceTest{}}
	for key, base := range b.base {
		if key.node == n.Meta.Name {
			s.base[key.device] = base
		}
	}
	for key, result := range b.results {
		if key.node == n.Meta.Name {
			s.results[key.device] = result
		}
	}
	if local {
		s.lines = slices.Clone(b.lines)
	}
	if card.Closed(n.Status.Devices) != 0 || len(n.Spec.DeviceOrders) > 0 || local {
		for _, slots := range b.places {
			for _, slot := range slots {
				if slot.Node == n.Spec.Number {
					s.busy |= slot.Devices
				}
			}
		}
	}
	return s
}

// saw takes readings of a node.
func (b *book) saw(node string, readings map[int]*card.DeviceReading) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readings[node] = readings
	for device, r := range readings {
		if key := (nodeAndDevice{node, device}); r != nil && !r.Lost && r.Silent == 0 {
			if _, ok := b.base[key]; !ok {
				b.base[key] = health.CountsOf(r, card.DeviceCounts{})
			}
		}
	}
}

// heard takes a line of the kernel's log.
func (b *book) heard(l card.KernelLine) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lines = append(b.lines, l); len(b.lines) > maxLines {
		b.lines = slices.Clone(b.lines[len(b.lines)-maxLines:])
	}
}

// begin says that a test of a device is not under way yet; it is then.
func (b *book) begin(key nodeAndDevice) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.testing[key] {
		return false
	}
	b.testing[key] = true
	return true
}

func (b *book) end(key nodeAndDevice, result *card.DeviceTest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.testing, key)
	b.results[key] = result
}

// wrote notes what was written of a node; revision 0: it was only read.
func (b *book) wrote(n *api.Node, revision int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.revision[n.Meta.Name] = max(b.revision[n.Meta.Name], revision)
	if card.Closed(n.Status.Devices) != 0 {
		b.closed[n.Spec.Number] = n.Meta.Name
	} else {
		delete(b.closed, n.Spec.Number)
	}
	if len(n.Status.Devices) > 0 {
		b.health[n.Meta.Name] = n.Status.Devices
	} else {
		delete(b.health, n.Meta.Name)
	}
}

func (b *book) least(node string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.revision[node]
}

// forget drops a node that is gone.
func (b *book) forget(node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.readings, node)
	delete(b.revision, node)
	delete(b.health, node)
	for number, name := range b.closed {
		if name == node {
			delete(b.closed, number)
		}
	}
}
