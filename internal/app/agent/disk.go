package agent

import (
	"context"
	"path/filepath"

	"github.com/fermi-cluster/fermi/internal/app/diskguard"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
)

// The disk of an agent is looked after as a server's: who fills it is ended by name, and what was held back lets the end of things be written down. The node
// takes no new work meanwhile, and says why; it is not away.

func guard(a *agent) *diskguard.Guard {
	return diskguard.New(diskguard.Config{
		Data: a.cfg.Data, Replicas: filepath.Join(a.dir(), "replicas"), Ballast: embedded.BallastOf(a.cfg.Data), Clock: clock.Real, Log: a.cfg.Log.With("part", "disk"),
		Said: func(bad *fault.Error) { sayDisk(a, bad) }, Ended: func(context.Context, diskguard.Ended) {}, // its replica says so itself
	})
}

// sayDisk has the node say how the disk is, and keeps what it had no room for.
func sayDisk(a *agent, bad *fault.Error) {
	a.mu.Lock()
	unkept, adapter := a.unkept, a.adapter
	a.mu.Unlock()
	if bad != nil {
		a.cfg.Log.Error("the disk of this agent is in trouble", "reason", bad.Reason, "error", bad)
	} else {
		a.cfg.Log.Info("the disk has room again")
		if unkept != nil {
			if err := a.settle(*unkept); err != nil {
				a.cfg.Log.Warn("what a server said could not be kept", "error", err)
			}
		}
	}
	if e, ok := adapter.(interface{ LookAtNodes() }); ok {
		e.LookAtNodes()
	}
}
