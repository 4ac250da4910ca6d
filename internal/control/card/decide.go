package card

import (
	"slices"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/internal/health"
)

// seen is a node and all evidence about its devices.
type seen struct {
	node     *api.Node
	readings map[int]*card.DeviceReading
	base     map[int]card.DeviceCounts
	lines    []card.KernelLine
	busy     uint64 // devices on which something stands
	results  map[int]*card.DeviceTest
}

// told is an event about a device.
type told struct {
	device int
	health.Event
}

// plan is what becomes of the node's devices.
type plan struct {
	devices  []card.DeviceHealth
	failures int
	tests    []int
	wake     time.Duration
	events   []told
}

// decide judges each device by itself.
func decide(s seen, now time.Time) plan {
	var p plan
	sooner := func(d time.Duration) {
		if d > 0 && (p.wake == 0 || d < p.wake) {
			p.wake = d
		}
	}
	for i, d := range s.node.Spec.Devices {
		d.Index = i // the planner's numbers are places in the list
		v := health.Decide(health.Seen{
			Node: s.node.Meta.Name, Device: d, Health: card.Of(s.node.Status.Devices, i), Reading: s.readings[i], Base: s.base[i], Lines: about(s.lines, d, s.readings[i]),
			Order: card.OrderOf(s.node.Spec.DeviceOrders, i), Busy: i < 64 && s.busy&(1<<i) != 0, Result: s.results[i], Boot: s.node.Status.BootID,
		}, now)
		sooner(v.Wake)
		for _, e := range v.Events {
			p.events = append(p.events, told{i, e})
		}
		if v.Test {
			p.tests = append(p.tests, i)
		}
		if v.Health != nil {
			p.devices = append(p.devices, *v.Health)
		}
	}
	failures, next := health.Failures(p.devices, now)
	p.failures = failures
	sooner(next)
	return p
}

// about are the lines that name this device.
func about(lines []card.KernelLine, d api.Device, r *card.DeviceReading) []card.KernelLine {
	bus := d.Bus
	if bus == "" && r != nil {
		bus = r.Bus
	}
	if d.Virtual || bus == "" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(lines), func(l card.KernelLine) bool { return !card.SameBus(l.Bus, bus) })
}
