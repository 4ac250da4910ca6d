package network

import (
	"context"
	"time"
)

const (
	lookEvery  = 5 * time.Second
	sweepEvery = time.Minute
)

// Keep makes again what somebody removed (a firewall that was loaded anew, an administrator), until ctx ends.
func (n *Network) Keep(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := n.locked(n.ensure); err != nil {
				n.cfg.Log.Error("the network of the replicas is not as it should be", "error", err)
			}
		}
	}
}

// SweepOn sweeps now and then until ctx ends; for the one that leads.
func (n *Network) SweepOn(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := n.Sweep(); err != nil {
			n.cfg.Log.Warn("addresses could not be swept", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
