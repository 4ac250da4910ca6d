package agent

import (
	"context"
	"path/filepath"

	"github.com/fermi-cluster/fermi/internal/app/diskguard"
	"github.com/fermi-cluster/fermi/internal/clock"
	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/store/embedded"
)

// guard looks after the disk of an agent as after a server's: who fills it is ended by name, and what was held back lets the end of things be written down.
// The node takes no new work meanwhile, and says why; it is not away.
func guard(cfg Config, changed func(bad *fault.Error)) *diskguard.Guard {
	return diskguard.New(diskguard.Config{
		Data: cfg.Data, Replicas: filepath.Join(cfg.Data, dirEngine, "replicas"), Ballast: embedded.BallastOf(cfg.Data), Clock: clock.Real, Log: cfg.Log.With("part", "disk"),
		Said: func(bad *fault.Error) {
			if bad != nil {
				cfg.Log.Error("the disk of this agent is in trouble", "reason", bad.Reason, "error", bad)
			} else {
				cfg.Log.Info("the disk has room again")
			}
			changed(bad)
		},
		Ended: func(context.Context, diskguard.Ended) {}, // its replica says so itself
	})
}
