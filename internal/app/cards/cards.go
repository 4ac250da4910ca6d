// Package cards puts together what looks after devices: the sensor of this machine, the test of a card, and the controller.
//
// Place: assembly. Promise: it runs while its server leads. Enemies: a decision made here.
package cards

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	api "github.com/fermi-cluster/fermi/api/v1"
	vocabulary "github.com/fermi-cluster/fermi/api/v1/card"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/control/card"
	"github.com/fermi-cluster/fermi/internal/engine/record"
	"github.com/fermi-cluster/fermi/internal/engine/sensor"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/health"
	"github.com/fermi-cluster/fermi/internal/launch/inspect"
	"github.com/fermi-cluster/fermi/internal/preflight"
	"github.com/fermi-cluster/fermi/internal/store"
)

// Config is what Run needs.
type Config struct {
	Store    store.ReadWriter
	Events   card.Events
	Log      *slog.Logger
	Registry prometheus.Registerer
}

// Run looks after devices until ctx, which ends with the leadership, ends.
func Run(ctx context.Context, cfg Config, epoch store.Epoch) error {
	boot, err := record.BootID()
	if err != nil {
		cfg.Log.Warn("the boot id can't be read: devices of this machine are not watched", "error", err)
	}
	s := sensor.New(sensor.Config{Boot: boot, Clock: clock.Real, Log: cfg.Log})
	c := card.New(card.Config{
		Store: cfg.Store, Events: cfg.Events, Clock: clock.Real, Log: cfg.Log, Boot: boot, Read: s.Read, Follow: s.Follow,
		Test: func(ctx context.Context, node *api.Node, device int) vocabulary.DeviceTest {
			d := node.Spec.Devices[device]
			d.Index = device
			return test(ctx, s.Read, d, cfg.Log)
		},
	}, epoch)
	if cfg.Registry != nil {
		if err := cfg.Registry.Register(c); err == nil {
			defer cfg.Registry.Unregister(c)
		}
	}
	return c.Run(ctx)
}

// test tries one device on which nothing stands: its driver is asked, then something is computed on it where there is PyTorch.
func test(ctx context.Context, read func(context.Context, []api.Device) map[int]*vocabulary.DeviceReading, d api.Device, log *slog.Logger) vocabulary.DeviceTest {
	if d.Virtual {
		return vocabulary.DeviceTest{Passed: true, How: preflight.Virtual}
	}
	r := read(ctx, []api.Device{d})[d.Index]
	if r == nil {
		return vocabulary.DeviceTest{How: preflight.Untested, Message: fault.T("Nobody could be asked about it.", "没有工具可查询该卡。")}
	}
	for _, c := range health.Conditions(r, health.CountsOf(r, vocabulary.DeviceCounts{}), vocabulary.DeviceCounts{}, r.At) {
		if c.Action.Closes() {
			return vocabulary.DeviceTest{How: preflight.Tested, Message: c.Message}
		}
	}
	if r.Silent > 0 {
		return vocabulary.DeviceTest{How: preflight.Tested, Message: health.Words("silent", 0, "")}
	}
	out := vocabulary.DeviceTest{Passed: true, How: preflight.Tested}
	switch computed := inspect.ComputeOn(ctx, d, log); {
	case computed.Test == "":
	case len(computed.Faults) > 0:
		f := computed.Faults[0]
		return vocabulary.DeviceTest{How: preflight.Computed, Message: fault.T("A test computation went wrong (%s %s).", "试算出错（%s %s）。", f.Kind, f.Text)}
	default:
		out.How = preflight.Computed
	}
	return out
}
