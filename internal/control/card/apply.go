package card

import (
	"context"
	"fmt"
	"reflect"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/history"
	"github.com/fermi-cluster/fermi/internal/store"
)

// apply writes the health if it is another, in one fenced commit, and then tells of it.
func (c *Controller) apply(ctx context.Context, s seen, p plan) error {
	old := s.node.Status
	if old.Failures == p.failures && (len(old.Devices) == 0 && len(p.devices) == 0 || reflect.DeepEqual(old.Devices, p.devices)) {
		return nil
	}
	next := store.Clone(s.node)
	next.Status.Devices, next.Status.Failures = p.devices, p.failures
	next.Meta.UpdatedAt = c.cfg.Clock.Now().UTC()
	short, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	revision, err := c.cfg.Store.Commit(short, store.Txn{Ops: []store.Op{store.Update(next)}, Fence: c.epoch})
	if err != nil {
		return fmt.Errorf("write the health of %s: %w", next.Meta.Name, err)
	}
	c.book.wrote(next, revision)
	rows := make([]history.Event, len(p.events))
	for i, e := range p.events {
		kind := "Normal"
		if e.Warning {
			kind = "Warning"
		}
		c.cfg.Log.Info("a device's health changed", "node", next.Meta.Name, "device", e.device, "reason", e.Reason, "text", e.Text.EN)
		rows[i] = history.Event{
			Time: next.Meta.UpdatedAt, Kind: api.KindNode, Name: next.Meta.Name, ID: next.Meta.ID, Type: kind, Reason: e.Reason, Message: e.Text, Actor: "card",
			Dedup: fmt.Sprintf("card-%s-%d-%d-%d", next.Meta.ID, e.device, revision, i),
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if err := c.cfg.Events.AddEvents(ctx, rows...); err != nil {
		c.cfg.Log.Warn("events of a device were not written", "node", next.Meta.Name, "error", err)
	}
	return nil
}
