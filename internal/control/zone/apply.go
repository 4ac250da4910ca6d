package zone

import (
	"context"
	"fmt"
	"reflect"
	"time"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/store"
)

// apply writes the status if it is another, in one fenced commit.
func (c *Controller) apply(ctx context.Context, s seen, status api.ZoneStatus) error {
	if reflect.DeepEqual(status, s.zone.Status) {
		return nil
	}
	next := store.Clone(s.zone)
	next.Status, next.Meta.UpdatedAt = status, c.cfg.Clock.Now().UTC()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := c.cfg.Store.Commit(ctx, store.Txn{Ops: []store.Op{store.Update(next)}, Fence: c.epoch}); err != nil {
		return fmt.Errorf("write the state of zone %s: %w", next.Meta.Name, err)
	}
	if status.Health != s.zone.Status.Health {
		c.cfg.Log.Info("a zone's health changed", "zone", next.Meta.Name, "health", status.Health, "reason", status.Reason)
	}
	return nil
}
